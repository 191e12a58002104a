"""Videos that are not files of this machine: objects behind URLs, members of tar shards."""
