"""python3 with_urllib3.py URL KEY BODY prints what the program gets, as JSON."""

import json
import sys

import urllib3
from urllib3.util import Retry


class Repeat(Retry):
    RETRY_AFTER_STATUS_CODES = frozenset({409, 425, 429, 503})  # repeated only with Retry-After


repeat = Repeat(total=5, backoff_factor=0.2, allowed_methods=None, status_forcelist=[500, 502, 504], raise_on_status=False)
pool = urllib3.PoolManager(retries=repeat, timeout=75)

if __name__ == "__main__":
    url, key, body = sys.argv[1:]
    res = pool.request("POST", url, body=body, headers={"Content-Type": "application/json", "Idempotency-Key": key})
    print(json.dumps({"status": res.status, "body": res.data.decode()}))
