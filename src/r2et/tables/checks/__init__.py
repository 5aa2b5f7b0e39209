"""What `r2et.tables.check_table` looks for, one module for each kind of question."""
