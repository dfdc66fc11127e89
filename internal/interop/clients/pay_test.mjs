// Checks what pay.ts has beside pay: node pay_test.mjs, after tsc.
import assert from 'node:assert/strict';
import { meaning, newKey } from './pay.js';

const keys = Array.from({ length: 1000 }, newKey);
assert.equal(new Set(keys).size, keys.length);
for (const key of keys) {
  assert.match(key, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.ok(Math.abs(Date.now() - parseInt(key.slice(0, 8) + key.slice(9, 13), 16)) < 60_000, key);
}

const answer = (status, headers) => ({ status, headers: new Headers(headers), body: '' });
const of = (status, result, problem) => answer(status, {
  ...(result && { 'Idempotency-Result': result }), ...(problem && { 'Idempotency-Problem': problem }),
});
assert.equal(meaning(null), 'later');
assert.equal(meaning(of(201, 'created')), 'answered');
assert.equal(meaning(of(402, 'reused')), 'answered');
assert.equal(meaning(of(402, 'not_applied')), 'correct');
assert.equal(meaning(of(500, 'unknown')), 'ask');
assert.equal(meaning(of(409, 'unknown', 'outcome_unknown')), 'ask');
assert.equal(meaning(of(409, 'reused', undefined)), 'answered');
assert.equal(meaning(of(409, undefined, 'key_too_old')), 'ask');
assert.equal(meaning(of(409, undefined, 'in_flight')), 'later');
assert.equal(meaning(of(503, 'unknown', 'commit_unconfirmed')), 'later');
assert.equal(meaning(of(409, undefined, 'key_reused')), 'correct');
assert.equal(meaning(of(200)), 'later'); // a login page
