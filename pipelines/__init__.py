"""One YAML per result; shipped with the package so that `videopipe run NAME` works anywhere."""
