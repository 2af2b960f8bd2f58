"""Every snippet of the README runs in order, as printed, and prints what the README says."""

import re
import shlex
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()
#: A Python snippet, and the output that is printed below it, if there is one.
PYTHON = re.compile(r"```python\n(.*?)```\n(?:```\n(.*?)```\n)?", re.DOTALL)


def test_python_snippets_print_what_the_readme_says(capsys):
    namespace = {}
    snippets = PYTHON.findall(README)
    assert len(snippets) == 4
    for code, output in snippets:
        exec(compile(code, "README.md", "exec"), namespace)
        assert capsys.readouterr().out == output


def test_snippets_of_what_you_know_print_what_the_page_says(capsys):
    page = (Path(__file__).parents[2] / "docs" / "what-you-know.md").read_text()
    namespace = {}
    snippets = PYTHON.findall(page)
    assert len(snippets) == 5
    for code, output in snippets:
        exec(compile(code, "what-you-know.md", "exec"), namespace)
        assert capsys.readouterr().out == output


def test_commands_print_what_the_readme_says(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("demo")[0] == 0
    sessions = re.findall(r"```\n\$ clusterfug (.*?)\n(.*?)```", README, re.DOTALL)
    assert sessions
    for command, expected in sessions:
        code, out, err = run(*shlex.split(command))
        assert (code, err) == (0, "")
        assert without_seconds(out) == without_seconds(expected)
    commands = re.findall(r"`clusterfug ((?:evaluate|bound) .*?)`", README, re.DOTALL)
    assert len(commands) == 2
    for command in commands:
        code, out, err = run(*shlex.split(command))
        assert (code, err) == (0, "")
        assert re.search(r"objective +-617,206\.65\s", out)


def without_seconds(text):
    lines = re.sub(r"seconds +[\d.]+", "seconds", text).splitlines()
    return [line.rstrip() for line in lines]


@pytest.mark.parametrize("page", sorted(Path(__file__).parents[2].glob("docs/*.md")), ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for text, folder in ((README, page.parents[1]), (page.read_text(), page.parent)):
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
            assert "://" in target or (folder / target).exists(), target
