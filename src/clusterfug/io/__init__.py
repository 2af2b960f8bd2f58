"""Readers and writers: everything that touches a file, and nothing that executes one."""
