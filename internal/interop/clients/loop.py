"""The loop for requests and httpx. python3 loop.py CLIENT URL KEY BODY prints what the program gets, as JSON."""

import json
import random
import sys
import time


def pay(send, lost):
    for n in range(6):
        try:
            res = send()
        except lost:
            res = None
        again = res is None or "Retry-After" in res.headers or (
            res.status_code >= 500 and "Idempotency-Result" not in res.headers)
        if not again or n == 5:
            return res  # None: uncertain; keep the key
        after = res.headers.get("Retry-After", "") if res is not None else ""
        time.sleep((int(after) if after.isdigit() else 0.2 * 2**n) * (1 + random.random()))


def with_httpx(url, key, body):
    import httpx

    client = httpx.Client(timeout=75)
    return pay(lambda: client.post(url, json=body, headers={"Idempotency-Key": key}), httpx.TransportError)


def with_requests(url, key, body):
    import requests

    def send():
        res = requests.post(url, json=body, headers={"Idempotency-Key": key}, timeout=75)
        if res.raw.tell() < int(res.headers.get("Content-Length", 0)):  # cut: urllib3 1 does not notice
            raise requests.ConnectionError
        return res

    return pay(send, (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError))


if __name__ == "__main__":
    client, url, key, body = sys.argv[1:]
    res = {"httpx": with_httpx, "requests": with_requests}[client](url, key, json.loads(body))
    print(json.dumps({"status": res.status_code, "body": res.text}))
