# sh curl.sh URL KEY BODY prints what the program gets, as JSON.
set -e
url=$1 key=$2 body=$3
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT

curl -sS -f --retry 3 --retry-all-errors -o "$answer" \
  -H "Idempotency-Key: $key" -H 'Content-Type: application/json' -d "$body" "$url"

echo '{"status": 201, "body": '"$(cat "$answer")"'}'
