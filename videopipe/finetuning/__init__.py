"""Teaching an inflated network a set of videos."""
