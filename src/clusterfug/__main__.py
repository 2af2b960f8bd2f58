"""python -m clusterfug"""

from clusterfug.cli import main

main()
