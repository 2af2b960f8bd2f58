"""Readers and writers of all file formats. Files are data: nothing that is read is executed."""
