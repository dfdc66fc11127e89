// Package invariants keeps docs/contributors/invariants.md true: the list of the contract's rules, each with the tests that
// prove it. A test names its rules in a comment above it:
//
//	// CONTRACT K-2, K-3
//	func TestParseKey(t *testing.T) {
//
// The test of this package fails where a rule has no test, where a comment names no rule, and where the list is out of
// date. go test ./internal/invariants -update writes the list.
package invariants

// chapter is a group of rules with the same letter.
type chapter struct {
	title string
	rules []rule
}

// rule is one promise of the contract.
type rule struct {
	id   string
	says string // in a few words
}

// contract lists all rules, in the order of the contract.
var contract = []chapter{
	{"O. Order of checks", []rule{
		{id: "O-1", says: "401, 403, 400, 413, claim, handler, in this order; nothing is recorded before the claim."},
		{id: "O-2", says: "Without a principal there is no scope: 401."},
		{id: "O-3", says: "Roles are checked on every repeat; a review may refuse a replay."},
		{id: "O-4", says: "One table declares every unsafe route; an undeclared one is refused; two interceptors are an error."},
		{id: "O-5", says: "A policy without a recovery is an error that lists the choices."},
		{id: "O-6", says: "The hash covers what the handler sees: a body that was read before the guard is refused."},
		{id: "O-7", says: "A refused token or principal is an event with its reason, never the token."},
	}},
	{"K. The key", []rule{
		{id: "K-1", says: "No key, or an empty one: 400 key_missing."},
		{id: "K-2", says: "The bare key and its RFC 9651 String are one key; parameters are refused."},
		{id: "K-3", says: "1 to 255 visible ASCII characters, no comma in the bare form; UUIDs only, where a policy says so."},
		{id: "K-4", says: "Two header lines, or a list: 400, never joined."},
		{id: "K-5", says: "A key in the URL: 400 key_in_url."},
		{id: "K-6", says: "The raw key is neither stored nor logged; the layout of the record id is frozen."},
		{id: "K-7", says: "The header's name is configurable, in the echo too."},
		{id: "K-8", says: "Safe methods and unmatched routes pass through."},
		{id: "K-9", says: "A UUIDv7 key gives an id that begins with its time; locks use 64 bits of the hash part."},
		{id: "K-10", says: "UUIDs are in lower case where a policy asks for them; headers that proxies fill in are refused."},
	}},
	{"S. Scope", []rule{
		{id: "S-1", says: "Two principals never meet; issuer and tenant count."},
		{id: "S-2", says: "A refreshed token is the same principal."},
		{id: "S-3", says: "A key is unique per principal across all commands."},
		{id: "S-4", says: "What belongs to the scope is stated once; a module that states it otherwise is refused."},
		{id: "S-5", says: "An operator sees and settles operations of its own issuer and tenant; others' cost what none costs."},
		{id: "S-6", says: "Operators' roles are bound to an issuer; an id that stands for nobody is no principal."},
	}},
	{"H. The command hash", []rule{
		{id: "H-1", says: "SHA-256 over method, path and query (by RFC 3986), media type, body, and headers a policy names."},
		{id: "H-2", says: "JSON is compared by meaning: member order and white space do not count, every digit does."},
		{id: "H-3", says: "Other bodies are compared byte for byte, multipart without its boundary."},
		{id: "H-4", says: "A repeat is hashed in the record's version; an unknown version is 503, and Run leaves it alone."},
		{id: "H-5", says: "The handler reads the body as it came; above a cap or a limit in front 413; truncated: no claim."},
		{id: "H-6", says: "Members whose names fold together keep their order in the hash; parts of a multipart body are capped."},
		{id: "H-7", says: "The host belongs to the command only if the policy names it."},
		{id: "H-8", says: "Parameters of the media type (but for the boundary and UTF-8) and trailers belong to the command."},
		{id: "H-9", says: "Reading a body takes memory as it arrives; hashing takes a few times that, and time as sorting does."},
	}},
	{"M. Repeats", []rule{
		{id: "M-1", says: "Same key, other command: 409 key_reused."},
		{id: "M-2", says: "Still running: 409 in_flight, or a bounded wait that holds no connection."},
		{id: "M-3", says: "Completed: the recorded status, headers and bytes, marked as a replay."},
		{id: "M-4", says: "Unknown: 409 outcome_unknown with the operation and safe_new_key false."},
		{id: "M-5", says: "Past retention: 409 key_expired with the outcome class; the handler does not run."},
		{id: "M-6", says: "One execution under any number of simultaneous repeats and instances; where nodes share no lock, " +
			"two may run the handler, and one commits."},
		{id: "M-7", says: "An operation can be asked for by its id, by its own principal and by operators."},
		{id: "M-8", says: "A client asks for its own operation by its key in the header; nothing is run. " +
			"What another node runs is not seen before its first commit, and 404 says so."},
	}},
	{"R. Recording the answer", []rule{
		{id: "R-1", says: "Recorded is what the client saw, rendered errors included."},
		{id: "R-2", says: "The answer leaves only after it is recorded, or breaks off; in doubt 503 commit_unconfirmed."},
		{id: "R-3", says: "Headers are recorded through an allowlist, in any spelling of the name."},
		{id: "R-4", says: "Rollback sends no byte before COMMIT; elsewhere large answers are recorded in part. " +
			"Nobody holds an answer for ever by not reading it."},
		{id: "R-5", says: "Recording survives the client going away; the attempt has its own deadline."},
		{id: "R-6", says: "Only proof that nothing was applied frees a key."},
		{id: "R-7", says: "A proven 400 or 422 may have a shorter retention and no tombstone."},
		{id: "R-8", says: "An answer with fewer bytes than announced is a failure; recorded headers are capped."},
		{id: "R-9", says: "A problem passed on from a service that has not finished is a failure, not an answer."},
		{id: "R-10", says: "A handler may say that it has failed, whatever its status; its answer passes through."},
	}},
	{"X. Recovery", []rule{
		{id: "X-0", says: "Rollback: rows and answer commit together; a refusal undoes the rows; a conflict, or a database in " +
			"distress, frees the key and is nobody's 4xx; optional work that a savepoint has undone does not count."},
		{id: "X-1", says: "Leases are renewed until the deadline; a lost lease cancels the handler."},
		{id: "X-2", says: "A stale owner can neither complete, release nor overwrite; an unsettled late one still completes."},
		{id: "X-3", says: "A provider call has one derived key in all attempts; no answer is recorded while one is unfinished."},
		{id: "X-4", says: "COMMIT is never cancelled; after an error the outcome is read back, never guessed."},
		{id: "X-5", says: "Rollback is refused on a store that cannot run rows in the claim's transaction."},
		{id: "X-6", says: "A write, or an unknown function, outside the attempt's transaction fails; Tx never falls back."},
		{id: "X-7", says: "A settlement is guarded, compares the fence, is final, leaves a row of history, and may take two."},
		{id: "X-8", says: "A handler does not end its attempt's transaction; what got through never frees the key."},
		{id: "X-9", says: "What a handler leaves behind, it leaves to nobody: unread rows are closed, and who reads on in them " +
			"gets an error and no recorded success; a connection on which a setting may stay is closed; no weaker commit."},
		{id: "X-10", says: "Half-done operations are listed, retried with pauses, parked and settled, steps read or " +
			"not; how attempts have ended is kept."},
		{id: "X-11", says: "A Rollback success whose transaction carried no write is an event, or what its policy says."},
		{id: "X-12", says: "A request that was swapped or recycled ends like a panic; its client gets no success."},
		{id: "X-13", says: "An app's function that panics or hangs ends neither the process nor the other loops of Run."},
		{id: "X-14", says: "n calls are n + 1 commits; nothing leaves before what stands in front of it is durable."},
		{id: "X-15", says: "A record that is seen decides, the lock only without one; a question takes no lock; what takes a " +
			"free record forgets its steps; a takeover is committed before the handler runs; a step of another fence is not new."},
		{id: "X-16", says: "A failed step dooms its segment; behind a seal that is unknown or refused nothing begins."},
		{id: "X-17", says: "Checkpoint seals a segment without a call; a Resume handler calls in core.Call only."},
	}},
	{"T. Time", []rule{
		{id: "T-1", says: "The store's clock decides leases and expiry, at the time of the statement."},
		{id: "T-2", says: "Retention is 24 h to 72 h, or a configuration error."},
		{id: "T-3", says: "Sweeps are safe in all instances at once and never touch running or unknown records."},
		{id: "T-4", says: "State is computed from row and clock, swept or not; live records are never evicted."},
		{id: "T-5", says: "A database clock far from the app's is noticed; nothing is taken over, settled or dropped by it, " +
			"and no message or intent judged; an unknown age is too old."},
		{id: "T-6", says: "Timed keys: a key that is too old is refused, with no tombstone needed, also after its route has " +
			"left the format."},
	}},
	{"D. The second line", []rule{
		{id: "D-1", says: "Money rows carry the id of operation or message under a UNIQUE index; where one is there already, " +
			"nothing else happens in the database."},
		{id: "D-2", says: "At start-up one error names every route and table that is not as it must be; what cannot be proven " +
			"is unproven."},
		{id: "D-3", says: "A unique violation becomes the existing row only if operation and command agree."},
	}},
	{"Q. Queues", []rule{
		{id: "Q-1", says: "A consumer processes a message once per consumer group; marker and rows commit together."},
		{id: "Q-2", says: "An event is published from the transaction of the rows; two of one name are an error."},
		{id: "Q-3", says: "The marker belongs to the handler; too old stays too old; an inbox joins its attempt or refuses."},
		{id: "Q-4", says: "A call in an inbox handler derives its key from the message."},
		{id: "Q-5", says: "An event is forwarded after its COMMIT is confirmed; a moved outbox is noticed."},
	}},
	{"C. The client", []rule{
		{id: "C-1", says: "One key per intent, the same in all attempts."},
		{id: "C-2", says: "Only what may be repeated is retried, with backoff and Retry-After."},
		{id: "C-3", says: "A call made inside a guarded handler names itself and has a derived key."},
		{id: "C-4", says: "An uncertain intent ends only with a definite answer of the library, or by the provider's profile."},
		{id: "C-5", says: "A planned intent keeps its key; a second attempt begins uncertain; a step and a call share none."},
		{id: "C-6", says: "The caller ends an intent in its own transaction, of the journal's own database."},
		{id: "C-7", says: "A failure or conflict is never definite; what counts has a mark that handlers cannot send."},
		{id: "C-8", says: "Nothing was carried out is said only where every delivery and every caller of the intent is known."},
	}},
	{"F. Failure of the store", []rule{
		{id: "F-1", says: "Store away before the claim: 503, the handler does not run; no fail-open switch."},
		{id: "F-2", says: "Nothing is lost or doubled by a durable primary; a server that is not durable is refused."},
		{id: "F-3", says: "A connection that passes nothing holds its place for a bounded time."},
		{id: "F-4", says: "An import never leaves a key free that the old system holds, nor is done beside an attempt of one; " +
			"what a provider knows and the database has lost can be marked as unknown."},
		{id: "F-5", says: "Inbox, journal and steps need the same durability as records, and the rights they use."},
		{id: "F-6", says: "Statements name their schema, found once; records in another schema are refused until one is named."},
		{id: "F-7", says: "A store knows how many connections it may use."},
		{id: "F-8", says: "A server that takes no writes answers no question; the money path is tried before the first claim."},
		{id: "F-9", says: "What is sealed is never recorded in plain. A row that cannot be opened is 503, nothing of it is run " +
			"or told, and it breaks no list, sweep, erasure or page; one whose key is lost is not replayable."},
	}},
	{"P. Problems", []rule{
		{id: "P-1", says: "Errors are RFC 9457 problems with stable codes, and a header that handlers cannot send."},
		{id: "P-2", says: "Another standard's statuses are one profile, whole and published; a policy that mixes is refused."},
	}},
}
