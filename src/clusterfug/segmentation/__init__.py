"""Instance segmentation of images by multicut of pixel embeddings, panoptic quality, file formats."""

from clusterfug.segmentation.grid import grid_graph
from clusterfug.segmentation.image import Rules
from clusterfug.segmentation.panoptic import Panoptic
from clusterfug.segmentation.pipeline import Outcome, Sample, Segmentation, segment, segment_many
from clusterfug.segmentation.quality import PanopticQuality, panoptic_quality

__all__ = [
    "Outcome",
    "Panoptic",
    "PanopticQuality",
    "Rules",
    "Sample",
    "Segmentation",
    "grid_graph",
    "panoptic_quality",
    "segment",
    "segment_many",
]
