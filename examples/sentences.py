"""Cluster sentences by topic, and name every cluster by its typical words.

    python examples/sentences.py                                     # 80 everyday sentences
    python examples/sentences.py texts.txt                           # your sentences, one per line
    python examples/sentences.py texts.txt --features features.npy   # with embeddings of an encoder

The steps, one function each:

1. Features: one vector per sentence. Embeddings of an encoder are best; without them we count words.
2. Directions: subtract the mean and scale to length 1, so that an inner product is a cosine.
3. Threshold: the similarity at which a pair is neutral. Solve at several on a sample, and select one.
4. Clusters: pairs above the threshold attract, pairs below it repel. Their number is a result.
5. Names: the words that are frequent in a cluster and rare outside.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.preprocessing import normalize

from clusterfug import DenseMulticut, threshold_path
from clusterfug.report.evaluation import evaluate

WORDS = r"\b(?=\d*[^\W\d_])[\w']{2,}"  # with a letter: don't and 401k are words, 12 is not
STOP = """about am an and any are as at be been but by can could did do does for from get had has have how
    if in is it its me my no not of on or please should so some that the their there these they this to up
    was we what what's when where which who why will with would you your"""  # English stop words
THRESHOLDS = np.arange(1, 9) / 10


def count_words(texts):
    """Return features without an encoder: rare words weigh more (TF-IDF), and words that co-occur share a
    direction (a truncated SVD), so that sentences can be similar without a common word."""
    counts = TfidfVectorizer(token_pattern=WORDS, stop_words=STOP.split()).fit_transform(texts)
    d = max(1, min(300, len(texts) // 8, counts.shape[1] - 1))
    return TruncatedSVD(d, random_state=0).fit_transform(counts)


def directions(features):
    """Return features without their common part, the mean, scaled to length 1."""
    features = features.astype(np.float32)
    return normalize(features - features.mean(axis=0))


def choose_threshold(X):
    """Return the highest threshold at which at most one sentence in twenty is alone.

    A higher threshold gives purer and smaller clusters, and finally singletons. It applies to pairs, so
    that a sample of the sentences is enough to select it."""
    sample = X[np.random.default_rng(0).permutation(len(X))[:2000]]
    rows = threshold_path(sample, THRESHOLDS).rows()
    print(f"{len(sample):,} sentences\nthreshold  clusters  largest  alone")
    for row in rows:
        print(f"{row['threshold']:9.1f}  {row['n_clusters']:8,}  {row['largest']:7,}  {row['alone']:5,}")
    few_alone = [row["threshold"] for row in rows if row["alone"] <= 0.05 * len(sample)]
    return max(few_alone, default=THRESHOLDS[0])


def typical_words(texts, labels, many=4):
    """Return names of the clusters by class-based TF-IDF.

    The score of a word is share * log(ratio)^2, with the share of the cluster's sentences that contain it,
    and the ratio of that to its share of all sentences. A word in one of several sentences has score 0."""
    counter = CountVectorizer(token_pattern=WORDS, stop_words=STOP.split(), binary=True)
    found = counter.fit_transform(texts)
    words = counter.get_feature_names_out()
    share_of_all = np.asarray(found.mean(axis=0)).ravel()
    names = []
    for cluster in range(labels.max() + 1):
        members = found[labels == cluster]
        size, counts = members.shape[0], np.asarray(members.sum(axis=0)).ravel()
        share = np.where(counts >= min(2, size), counts / size, 0)
        score = share * np.log(np.maximum(share / share_of_all, 1)) ** 2
        best = np.argsort(-score, kind="stable")[:20]
        name = []
        for word in words[best[score[best] > 0]]:
            if not any(word.startswith(w) or w.startswith(word) for w in name):  # bills, if there is bill
                name.append(word)
        names.append(", ".join(name[:many]))
    return names


def print_clusters(texts, X, model, names, many):
    """Print the largest clusters: size, name, and the two sentences nearest to the mean."""
    sizes = np.bincount(model.labels_)
    for cluster in np.argsort(-sizes, kind="stable")[:many]:
        members = np.flatnonzero(model.labels_ == cluster)
        nearest = members[np.argsort(-X[members] @ model.cluster_centers_[cluster], kind="stable")]
        print(f"\n{sizes[cluster]:6,}  {names[cluster]}")
        for item in nearest[:2]:
            print(f"          {texts[item]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("texts", nargs="?", type=Path, default=Path(__file__).with_name("sentences.txt"))
    parser.add_argument("--features", type=Path, help=".npy, one row per sentence")
    parser.add_argument(
        "--labels", type=Path, help=".npy, known classes: prints the agreement with clusters"
    )
    parser.add_argument("--threshold", type=float, help="default: selected on a sample")
    parser.add_argument("--show", type=int, default=20, help="clusters to print")
    parser.add_argument("-o", "--output", type=Path, help=".csv with the columns label, name, sentence")
    options = parser.parse_args()

    texts = options.texts.read_text(encoding="utf-8").rstrip("\n").split("\n")
    features = count_words(texts) if options.features is None else np.load(options.features)
    if len(features) != len(texts):
        raise ValueError(f"{options.texts} has {len(texts)} lines, {options.features} {len(features)} rows")
    X = directions(features)
    threshold = choose_threshold(X) if options.threshold is None else options.threshold
    model = DenseMulticut(threshold).fit(X)
    print(f"\nthreshold {threshold:g}: {model.n_clusters_:,} clusters of {len(texts):,} sentences")
    if options.labels is not None:
        print(f"AMI {evaluate(model.labels_, np.load(options.labels)).scores.ami:.3f}")
    names = typical_words(texts, model.labels_)
    print_clusters(texts, X, model, names, options.show)
    if options.output is not None:
        with options.output.open("w", newline="", encoding="utf-8") as file:
            rows = ((label, names[label], text) for label, text in zip(model.labels_, texts, strict=True))
            csv.writer(file).writerows([("label", "name", "sentence"), *rows])


if __name__ == "__main__":
    try:
        main()
    except (OSError, TypeError, ValueError) as error:
        raise SystemExit(f"sentences.py: {error}") from None
