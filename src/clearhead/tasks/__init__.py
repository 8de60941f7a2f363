"""One file per task: rows → examples → loss → results → metrics. It holds no weights and opens no files."""
