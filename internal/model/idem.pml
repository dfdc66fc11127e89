/*
 * One key, three requests, and everything that can go wrong between them. README.md says what is modelled and what is not.
 *
 *     -DFIRST=Resume -DOTHER=Rollback   the recovery of command 1, which two requests send, and of command 2, which one sends
 *     -DUNDECLARED                      nobody declares that the provider deduplicates, and it does not
 *     -DREPEATABLE_READ                 the app's default isolation; READ COMMITTED otherwise
 *     -DNO_LOCK                         a database without a lock that all its nodes share
 *     -DDM_...                          a mistake, which the check must find
 */
#define recovery(command) (command == 1 -> FIRST : OTHER)
#define OPERATOR 7

mtype = { Rollback, Resume, Park }                  /* recoveries */
mtype = { None, Free, Running, Parked, Done }       /* states of the record; None: there is none */
mtype = { Handler, Refusal, Operator }              /* whose answer a finished record has; Refusal: a 4xx, recorded alone */
mtype = { Idle, Open, Sent }                        /* a transaction at the server; Sent: its COMMIT is on the way */
mtype = { Insert, Take, Update }                    /* the statement that decides in it */
mtype = { Ok, Lost, Busy, Absent }                  /* what came of it; Lost: its condition did not hold */

/* Steps: what a commit makes durable, in the record and as rows. */
#define A      1   /* the rows in front of the call */
#define START  2   /* the start of the call */
#define RESULT 4   /* its result */
#define B      8   /* the rows behind it */
#define has(steps, step) ((steps & step) != 0)

/* The database: the record of the key, the app's rows, and the key's lock (0, or 1 + who holds it). */
typedef Record { mtype st; mtype answer; byte cmd; byte owner; byte fence; byte attempts; byte steps; bool lapsed }
Record rec;
byte rowsA, rowsB, lock;
byte row; /* who has locked the record's row: a segment behind the first commit */

/* Each request's transaction. It is the server's: it lives on when the request has died. */
typedef Tx { mtype st; mtype verb; mtype to; byte cmd; byte fence; byte steps; bool first; bool alone }
Tx tx[3];

#ifdef UNDECLARED
#define DECLARED 0
#else
#define DECLARED 1
#endif

/* The provider has one derived key: it is the same in all attempts, of both commands. */
byte charges;
bool window;        /* it deduplicates, from the start of the call on, and everybody knows until when */
bool calling[3];    /* a call that may still leave */

bool ended[3];      /* requests that were answered, or have died */
bool started;       /* request 1 is a copy of request 0: it comes second */

/* What only assertions read. */
byte keeper;                              /* who took or settled the record last */
byte rowscmd, chargecmd;                  /* whose rows, whose charge */
bool took[3], wrote[3], toldNothing[3], settled;

/* ------------------------------------------------------------------------------------------------ what must hold */

#define belongs(command) ((rec.st == Running || rec.st == Parked || (rec.st == Done && rec.answer != Refusal)) && rec.cmd == command)
#define finished(command) (rec.st == Done && rec.answer == Handler && rec.cmd == command)

inline check() {
	assert(rowsA <= 1 && rowsB <= 1);                     /* rows at most once */
	assert(charges <= 1);                                 /* the call at most once */
	assert(!finished(1) || FIRST == Park || rowsA + rowsB == 2);  /* an answer has its rows */
	assert(!finished(2) || OTHER == Park || rowsA + rowsB == 2);  /* an answer has its rows */
	assert(!finished(1) || FIRST == Rollback || charges == 1);    /* an answer has its call */
	assert(!finished(2) || OTHER == Rollback || charges == 1);    /* an answer has its call */
	assert(rowsB == 0 || rec.st == Done);                         /* the last rows have their answer */
	assert(rowsA == 0 || belongs(rowscmd));                       /* rows belong to a record of their command */
	assert(charges == 0 || belongs(chargecmd) || settled)         /* a call belongs to a record of its command */
}

/* While a request's first segment is open, no other handler begins, and nobody else writes the record. At REPEATABLE READ,
   and without a lock, a handler may run beside another one's COMMIT (M-6). */
#if defined(REPEATABLE_READ) || defined(NO_LOCK)
#define SECOND_LOOK
#define alone_is(i) skip
#else
#define alone_is(i) assert((i == 0 || !tx[0].first) && (i == 1 || !tx[1].first) && (i == 2 || !tx[2].first))
#endif

/* ------------------------------------------------------------------------------------------------ the server */

#ifdef NO_LOCK
#define take_lock(i) skip
#else
#define take_lock(i) lock = i + 1
#endif

/* An INSERT that is sent alone, a claim of Park or a 4xx, takes the lock in the statement before. A takeover does not wait
   for a segment. */
#ifdef DM_REFUSAL_NO_LOCK
#define locked(i) (tx[i].verb == Insert && tx[i].alone && tx[i].to != Done && lock != 0)
#else
#define locked(i) (tx[i].verb == Insert && tx[i].alone && lock != 0)
#endif
#define busy(i) (locked(i) || (tx[i].verb == Take && row != 0))

/* The primary key decides: a record is inserted if there is none, or takes the free one that was seen. */
#ifdef DM_INSERT_OVER_ANY
#define insertable(i) true
#else
#define insertable(i) (tx[i].fence == 0 -> rec.st == None : rec.st == Free && rec.fence == tx[i].fence)
#endif

#ifdef DM_NO_NEW_FENCE
#define raises(v) (v == Insert)
#define owns(i, f) (rec.fence == f) /* a takeover hands on owner and fence as they are */
#else
#define raises(v) (v != Update)
#ifdef DM_FENCE_ALONE
#define owns(i, f) (rec.fence == f)
#else
#define owns(i, f) (rec.owner == i && rec.fence == f)
#endif
#endif

#define unfinished (rec.st == Running || rec.st == Parked)
#ifdef DM_NO_OWNER
#define updatable(i) (rec.st != None)
#else
#define updatable(i) (unfinished && owns(i, tx[i].fence))
#endif

#define takable(i) (rec.st == Running && rec.lapsed && rec.fence == tx[i].fence)
#define decided_for(i) ((tx[i].verb == Insert && insertable(i)) || (tx[i].verb == Take && takable(i)) || (tx[i].verb == Update && updatable(i)))

/* rollback ends a transaction, and so does commit. */
inline rollback(i) {
	if :: lock == i + 1 -> lock = 0 :: else fi;
	if :: row == i + 1 -> row = 0 :: else fi;
	tx[i].st = Idle; tx[i].verb = 0; tx[i].to = 0; tx[i].cmd = 0; tx[i].fence = 0; tx[i].steps = 0; tx[i].first = 0; tx[i].alone = 0;
	toldNothing[i] = 0
}

inline commit(i, got) {
	if
	:: busy(i) -> got = Busy
	:: !busy(i) && !decided_for(i) -> got = Lost
	:: else ->
		assert(!toldNothing[i]); /* what was told as "nothing was applied" is not applied later */
		alone_is(i);            /* nobody writes the record under another one's first segment */
		if
		:: tx[i].verb == Update -> assert(keeper == i) /* a stale owner's writes are refused */
		:: tx[i].verb == Take -> rec.fence = rec.fence + raises(Take); rec.attempts++; rec.owner = i; rec.lapsed = 0
		:: tx[i].verb == Insert -> rec.fence = tx[i].fence + 1; rec.attempts = 1; rec.owner = i; rec.lapsed = 0; rec.cmd = tx[i].cmd;
#ifndef DM_STEPS_KEPT
			rec.steps = 0 /* who takes a free record forgets its steps */
#endif
		fi;
		keeper = i;
		if
		:: rec.st == Parked && tx[i].to == Running /* a late owner goes on, and the record stays parked */
		:: else -> rec.st = tx[i].to
		fi;
		if
		:: rec.st == Done -> rec.answer = (recovery(rec.cmd) == Park || has(tx[i].steps, B) -> Handler : Refusal)
		:: else
		fi;
		rec.lapsed = (rec.st == Parked || (rec.st == Running && rec.lapsed));
		window = (DECLARED && (window || (has(tx[i].steps, START) && !has(rec.steps, START))));
		rec.steps = rec.steps | tx[i].steps;
		if :: tx[i].verb != Take && has(tx[i].steps, A) -> rowsA++; rowscmd = tx[i].cmd :: else fi;
		if :: has(tx[i].steps, B) -> rowsB++ :: else fi;
		if :: !ended[i] -> took[i] = 1; wrote[i] = 1 :: else fi;
		got = Ok;
		check()
	fi;
	rollback(i)
}

/* The server has messages and connections that nobody waits for any more. It notices at any time, or late. */
proctype Server() {
	mtype got;
end:
	do
	:: d_step { tx[0].st == Sent -> commit(0, got); got = 0 }
	:: d_step { tx[1].st == Sent -> commit(1, got); got = 0 }
	:: d_step { tx[2].st == Sent -> commit(2, got); got = 0 }
	:: d_step { (tx[0].st == Sent || (tx[0].st == Open && ended[0])) -> rollback(0) }
	:: d_step { (tx[1].st == Sent || (tx[1].st == Open && ended[1])) -> rollback(1) }
	:: d_step { (tx[2].st == Sent || (tx[2].st == Open && ended[2])) -> rollback(2) }
	od
}

/* ------------------------------------------------------------------------------------------------ a request */

/* see is a statement that reads the record. */
inline see() { s.st = rec.st; s.cmd = rec.cmd; s.fence = rec.fence; s.steps = rec.steps; s.lapsed = rec.lapsed }
inline unsee() { s.st = 0; s.cmd = 0; s.fence = 0; s.steps = 0; s.lapsed = 0 }

/* A record that is seen decides, unless it is free or can be taken over. */
#define decides (s.st != None && s.st != Free && !(s.cmd == cmd && s.st == Running && s.lapsed && kind == Resume))

/* answer_repeat tells what a repeat is told. */
inline answer_repeat() {
	if
#ifdef DM_ANY_COMMAND
	:: s.st == Done -> assert(rec.st == Done && rec.cmd == cmd)                    /* no answer of another command */
#else
	:: s.st == Done && s.cmd == cmd -> assert(rec.st == Done && rec.cmd == cmd)    /* no answer of another command */
	:: decides && s.cmd != cmd                                                    /* key_reused */
#endif
	:: s.cmd == cmd && (s.st == Parked || s.st == Running && s.lapsed && kind == Park) /* outcome_unknown */
	:: s.st == None /* the free record was swept in between: a repeat finds none */
	:: else -> assert(!quiet) /* in_flight: nothing is stuck when all is quiet */
	fi;
	goto out
}

/* tell_nothing tells that nothing was applied. */
inline tell_nothing() {
	atomic { assert(!wrote[i]); /* "nothing was applied" is true */
		toldNothing[i] = (tx[i].st == Sent); goto out }
}

#define fence_of(verb, seen) (seen + raises(verb))
#if defined(DM_READBACK_BY_OWNER)
#define landed(verb, state, seen, what) owns(i, fence_of(verb, seen))
#else
#define landed(verb, state, seen, what) (owns(i, fence_of(verb, seen)) && (rec.steps & (what)) == (what) && (rec.st == state || rec.st == Parked))
#endif
#ifdef DM_READBACK_LOOKS
#define shut_out(seen) skip
#else
#define shut_out(seen) rec.st = Free; rec.fence = seen + 1
#endif

/* readback waits for who holds the row, and reads back by a write, on another connection. A record that was to be inserted is
   inserted as a free one, or the fence of the free one that was seen is raised: a conflict is the truth, and what was
   written shuts the old message out. Of an own record it compares what this very commit wrote. */
inline readback(verb, state, seen, what) {
	atomic {
		row == 0;
		if
		:: landed(verb, state, seen, what) -> got = Ok
		:: else ->
			if
			:: verb == Insert && rec.st == None || rec.st == Free && seen > 0 && rec.fence == seen -> shut_out(seen); got = Absent
			:: verb == Insert && rec.st == Free && rec.fence == seen + 1 -> got = Absent /* somebody else has shut it out */
			:: verb == Update && owns(i, seen) -> got = Absent
			:: else -> got = Lost
			fi
		fi
	}
}

/* release gives back a takeover whose answer was lost: it has landed, or it is shut out. */
inline release(seen) {
	atomic {
		row == 0;
		if
#ifdef DM_RELEASED_BY_OWNER
		:: rec.st == Running && rec.owner == i -> rec.attempts--; rec.lapsed = 1
#else
		:: rec.st == Running && owns(i, fence_of(Take, seen)) -> rec.attempts--; rec.fence++; rec.lapsed = 1
#endif
		:: rec.st == Running && rec.owner != i && rec.fence == seen -> rec.fence++; rec.lapsed = 1
		:: else
		fi
	}
}

inline put(verb_, state, seen, what) {
	tx[i].verb = verb_; tx[i].to = state; tx[i].fence = seen; tx[i].steps = what; tx[i].cmd = cmd;
	tx[i].alone = (lock != i + 1)
}

/* send sends the statement that decides, and COMMIT. Its answer arrives, or it is lost, and read back. */
inline send(verb_, state, seen, what) {
	if
	:: d_step { put(verb_, state, seen, what); commit(i, got) }
	:: !quiet ->
		d_step { put(verb_, state, seen, what); tx[i].st = Sent };
		if
		:: readback(verb_, state, seen, what)
		:: goto died
		fi
	fi
}

/* own opens a segment behind the first commit: it waits for the lock, and compares owner and fence. */
inline own() {
	if
	:: atomic {
#ifdef DM_BUSY_GIVES_UP
		true ->
		if :: lock != 0 -> goto out :: else fi;
#endif
		lock == 0 && row == 0 && tx[i].st == Idle ->
		take_lock(i); row = i + 1; tx[i].st = Open;
#ifndef DM_NO_OWNER
		if :: unfinished && owns(i, fence) :: else -> rollback(i); goto out fi
#endif
	}
	:: !quiet -> goto died
	fi
}

/* land is the call, as it arrives at the provider. */
inline land() {
	assert(took[i]); /* nobody calls before a commit of its own */
	if
	:: charges > 0 && (window || settled) /* deduplicated */
	:: else -> charges++; chargecmd = cmd
	fi;
	calling[i] = 0;
	check()
}

proctype Request(byte i; byte cmd; mtype kind; bool quiet) { /* quiet: nothing goes wrong any more */
	Record s;            /* the record, as a statement saw it */
	mtype got;           /* what came of a commit */
	byte fence, steps;   /* of this attempt; the steps that it found finished */
	bool result;         /* the call's result, which nobody has but this process */

	/* Lock and look are two statements. */
	atomic {
		i != 1 || started;
		started = 1;
		see();
		if :: decides -> answer_repeat() :: else fi;
		if :: kind == Park -> goto parking :: else fi
#ifndef REPEATABLE_READ
		; unsee() /* the second statement has a snapshot of its own */
#endif
	};
	atomic {
		if
		:: lock == 0 -> take_lock(i); tx[i].st = Open
		:: else -> assert(!quiet); /* in_flight: nothing is stuck when all is quiet */
			unsee(); goto out
		fi
	};
	atomic {
#ifndef REPEATABLE_READ
		see();
#endif
		if :: decides -> rollback(i); answer_repeat() :: else fi;
		if
		:: s.st == Running -> fence = s.fence; steps = s.steps; unsee(); goto takeover
		:: else ->
			alone_is(i); /* one execution: no handler beside another one's first segment */
			tx[i].first = 1;
			fence = (s.st == Free -> s.fence : 0);
#ifdef DM_STEPS_KEPT
			steps = (s.st == Free -> s.steps : 0);
#endif
			unsee()
		fi
	};

	/* The first segment. The handler has written A, and goes one of these ways. */
	if
	:: !quiet -> /* 401, 5xx, NotApplied: nothing is recorded, and the key is free */
#ifndef SECOND_LOOK
		atomic { assert(rec.st == None || rec.st == Free); /* "the key is free" is true */
			rollback(i); tell_nothing() }
#else
		d_step { rollback(i) };
		atomic {
#ifndef DM_NO_SECOND_LOOK
			see(); if :: decides -> answer_repeat() :: else unsee() fi;
#endif
			assert(rec.st != Done); /* "the key is free" is true */
			tell_nothing()
		}
#endif
	:: !quiet -> tell_nothing() /* the connection is cut, or the process dies */
	:: !quiet -> /* a 4xx: ROLLBACK, and an INSERT that takes the lock itself */
		d_step { rollback(i) };
		send(Insert, Done, fence, 0);
		if
		:: got == Lost -> atomic { see(); answer_repeat() }
		:: else -> goto out /* the 4xx, in_flight or commit_unconfirmed */
		fi
	:: kind == Rollback ->
		send(Insert, Done, fence, (A | B) & ~steps)
	:: kind == Resume -> /* the call comes next */
		calling[i] = 1;
#ifdef DM_CALL_FIRST
		goto call;
#endif
		send(Insert, Running, fence, (A & ~steps) | START);
		steps = START
	:: kind == Resume -> /* a Checkpoint lies between */
		send(Insert, Running, fence, A & ~steps);
		steps = 0
	fi;
	if
	:: got == Ok && kind == Rollback -> atomic { assert(finished(cmd) && rec.owner == i); goto out } /* who is told "created" has an answer on record */
	:: got == Ok && kind == Resume -> d_step { fence = fence + 1; got = 0 }
	:: got == Lost -> atomic { see(); answer_repeat() }
	:: got == Absent -> tell_nothing()
	fi;
	if
	:: steps == START -> steps = 0; goto call
	:: else -> goto between
	fi;

takeover: /* it is committed before the handler runs, and then the steps are read */
#ifndef DM_LATE_TAKEOVER
	if
	:: d_step { put(Take, Running, fence, 0); commit(i, got) };
		if
		:: got == Ok -> d_step { fence = fence_of(Take, fence); got = 0 }
		:: else -> goto out
		fi
	:: !quiet -> /* its answer is lost, and it is given back, maybe twice */
		d_step { put(Take, Running, fence, 0); tx[i].st = Sent };
		if
		:: release(fence); if :: release(fence) :: true fi; goto out
		:: goto died
		fi
	fi;
#else
	atomic { rollback(i) };
#endif
#ifndef DM_STEPS_OF_THE_LOOK
	steps = (rec.attempts > 1 || rec.owner != i -> rec.steps : 0); /* a first attempt has none */
#endif
	if
	:: has(steps, RESULT) -> steps = 0; goto behind
	:: has(steps, START) && !has(steps, RESULT) ->
		if
#ifdef DM_CALL_AGAIN
		:: true -> goto call
#else
		:: atomic { window -> calling[i] = 1; steps = 0; goto call }
		:: else -> send(Update, Parked, fence, 0); goto out /* nobody knows whether the call was made */
#endif
		fi
	:: else
	fi;

between: /* the segment between the Checkpoint and the call */
	own();
	if
	:: !quiet -> /* 5xx */
#ifdef DM_FIRST_CALL
		d_step { rollback(i) }; tell_nothing()
#else
		d_step { rollback(i) }; goto out
#endif
	:: calling[i] = 1;
		send(Update, Running, fence, START);
		if :: got == Ok -> got = 0 :: else -> goto out fi
	fi;

call: /* it holds no lock, no transaction and no connection */
	if
	:: atomic { land(); result = 1 }
	:: !quiet -> atomic { land(); goto out }  /* the provider's answer is lost */
	:: !quiet -> goto out                     /* the call is */
	fi;
#ifdef UNDECLARED
record: /* nobody may call again: the result is recorded before the handler goes on */
	own();
	send(Update, Running, fence, RESULT);
	if
	:: got == Ok -> d_step { result = 0; got = 0 }
	:: got == Lost -> goto out
	:: else -> goto record
	fi;
#endif

behind: /* the segment behind the call */
	own();
	if
	:: send(Update, Done, fence, RESULT | B);
		if
		:: got == Ok -> atomic { assert(finished(cmd) && rec.owner == i); goto out } /* who is told "created" has an answer on record */
		:: got == Lost -> goto out
		:: else
		fi
	:: !quiet -> d_step { rollback(i) } /* 5xx */
	fi;
#ifndef DM_RESULT_THROWN
keep: /* the result of a finished call is recorded alone */
	if
	:: result ->
		own();
		send(Update, Running, fence, RESULT);
		if
		:: got == Absent -> goto keep
		:: else
		fi
	:: else
	fi;
#endif
	goto out;

parking: /* the claim takes the lock in its own statement */
	atomic { fence = (s.st == Free -> s.fence : 0); unsee() };
	send(Insert, Running, fence, 0);
	if
	:: got == Ok -> d_step { fence = fence + 1; got = 0 }
	:: got == Lost -> atomic { see(); answer_repeat() }
	:: else -> goto out /* in_flight, store_unavailable */
	fi;
	if
	:: !quiet -> send(Update, Free, fence, 0)   /* NotApplied */
	:: !quiet -> send(Update, Parked, fence, 0) /* 5xx */
	:: atomic { land() };
		if
		:: send(Update, Done, fence, 0)
		:: !quiet -> send(Update, Parked, fence, 0)
		fi
	fi;

out:
	atomic {
		assert(!result || has(rec.steps, RESULT) || !unfinished || rec.owner != i || rec.fence != fence); /* a process that lives loses no result */
died:
		ended[i] = 1; calling[i] = 0; took[i] = 0; wrote[i] = 0; got = 0; fence = 0; steps = 0; result = 0; unsee()
	}
}

/* ------------------------------------------------------------------------------------------------ the rest of the world */

#define settleable (rec.st == Parked || (rec.st == Running && rec.lapsed && recovery(rec.cmd) == Park))

#ifdef DM_SWEPT_EARLY
#define may_sweep true
#else
#define under_way(i) (tx[i].st == Sent && tx[i].verb == Insert)
#define may_sweep (!under_way(0) && !under_way(1) && !under_way(2))
#endif

proctype World() {
end:
	do
	:: d_step { rec.st == Running && !rec.lapsed -> rec.lapsed = 1 }
	:: d_step { window && unfinished && !calling[0] && !calling[1] && !calling[2] -> window = 0 }
	/* Run parks what went on for too long (X-10). */
	:: d_step { rec.st == Running && rec.lapsed && recovery(rec.cmd) == Resume && lock == 0 && row == 0 -> rec.st = Parked }
	/* An operator or a reconciler settles: applied; or not applied, and the rows are undone. */
	:: d_step { settleable && lock == 0 && row == 0 ->
		rec.st = Done; rec.answer = Operator; rec.fence++; rec.lapsed = 0; window = 0; keeper = OPERATOR; settled = 1; check() }
	:: d_step { settleable && lock == 0 && row == 0 && charges == 0 ->
		rec.st = Free; rec.fence++; rec.lapsed = 0; window = 0; keeper = OPERATOR; settled = 1; rowsA = 0; rowscmd = 0; check() }
	/* The sweep drops a free record, and nothing is left of it; not while an INSERT may be on its way. */
	:: d_step { rec.st == Free && lock == 0 && may_sweep ->
		rec.st = None; rec.cmd = 0; rec.owner = 0; rec.fence = 0; rec.attempts = 0; rec.steps = 0; rec.lapsed = 0; keeper = 0;
		wrote[0] = 0; wrote[1] = 0; wrote[2] = 0 }
	od
}

init {
	atomic {
		rec.st = None; tx[0].st = Idle; tx[1].st = Idle; tx[2].st = Idle;
		run Server(); run World();
		run Request(0, 1, FIRST, 0); run Request(1, 1, FIRST, 0); run Request(2, 2, OTHER, 0)
	};
	/* Nothing is stuck: when all have ended, and time has passed, a repeat of either command gets an answer. */
	atomic {
		ended[0] && ended[1] && ended[2] && tx[0].st == Idle && tx[1].st == Idle && tx[2].st == Idle && (rec.st != Running || rec.lapsed) ->
		ended[0] = 0;
		if
		:: run Request(0, 1, FIRST, 1)
		:: run Request(0, 2, OTHER, 1)
		fi
	};
	ended[0]
}
