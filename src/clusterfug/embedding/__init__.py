"""Embedding of images by ONNX encoders; `clusterfug embed` calls it."""

from clusterfug.embedding.pipeline import DTYPES, MEAN, STD, Embedding, embed

__all__ = ["DTYPES", "MEAN", "STD", "Embedding", "embed"]
