"""Folders of Hugging Face transformers as networks of timm with the same numbers."""
