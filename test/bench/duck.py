#!/usr/bin/env python3
"""DuckDB beside us: holds copies of the tables in memory and answers, a line each,
"load TABLE FILE COLUMNS", "ask SQL" (result, rows by newline, columns by |, then @@@) and
"time SQL" (milliseconds).  duck.py THREADS"""
import sys
import time

import duckdb

connection = duckdb.connect(":memory:")
connection.execute(f"set threads = {int(sys.argv[1])}")
print(duckdb.__version__, flush=True)
for line in sys.stdin:
    verb, _, rest = line.rstrip("\n").partition(" ")
    try:
        if verb == "load":
            table, path, columns = rest.split(" ", 2)
            connection.execute(f"create table {table} ({columns})")
            connection.execute(f"copy {table} from '{path}' (format csv, header false)")
        elif verb == "ask":
            for row in connection.execute(rest).fetchall():
                print("|".join("" if value is None else str(value) for value in row))
        elif verb == "time":
            start = time.perf_counter()
            connection.execute(rest).fetchall()
            print((time.perf_counter() - start) * 1000)
    except duckdb.Error as error:
        print("ERROR " + str(error).splitlines()[0])
    print("@@@", flush=True)
