"""One file per task: rows → examples → loss → results → metrics. A task holds no weights and opens no files."""
