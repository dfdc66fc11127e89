package inspect

import (
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
)

// mark is a state as pages show it: a word, and a colour by its class. No state is shown by its colour alone.
type mark struct {
	Class, Word string
}

func markOf(rec store.Record) mark {
	if rec.HalfDone() {
		return halfDone
	}
	return markOfState(rec.State())
}

var (
	halfDone = mark{"half-done", "half-done"}
	unknown  = mark{"unknown", "unknown"}
)

func markOfState(s store.State) mark {
	switch s {
	case store.Unknown:
		return unknown
	case store.Running:
		return mark{"running", "running"}
	case store.Completed:
		return mark{"completed", "completed"}
	case store.Expired:
		return mark{"over", "expired"}
	}
	return mark{"over", s.String()}
}

// meaning says in plain words what a state means, and what somebody has to do.
func meaning(rec store.Record, o operations.Outlook) string {
	switch {
	case rec.HalfDone():
		return "Some of its steps are done, and nobody is at it. " + ahead(rec, o)
	case rec.State() == store.Unknown && rec.Recovery == store.Rollback:
		return "Its handler ended the transaction itself, so nobody knows which of its rows have stayed. It is never run again " +
			"by itself. Look into the database, and settle it."
	case rec.State() == store.Unknown && rec.Ownerless():
		return "A provider knows it, and the database has lost it. Whose it is and of which route, its first repeat will say: " +
			"it is told that the outcome is unknown, and runs nothing. Find out at the provider, and settle it."
	case rec.State() == store.Unknown:
		return "Nobody knows whether it took effect. It is never run again by itself, and its client is told that the outcome " +
			"is unknown. Find out at the provider, and settle it."
	case rec.State() == store.Running:
		return "An attempt is under way. Nothing is to be done."
	case rec.State() == store.Completed:
		return "It is over. Each repeat gets the recorded answer, and nothing is run again. Nothing is to be done."
	case rec.State() == store.Expired:
		return "It is over, and its answer is no longer kept. A repeat is refused, and nothing is run again."
	}
	return "Its key is free: the next request with it runs the command."
}

// ahead says what becomes of a half-done operation, and who goes on with it.
func ahead(rec store.Record, o operations.Outlook) string {
	who := "Only a repeat of its client goes on with it: the service does not do so by itself (Config.Resume has no function " +
		"for its route). "
	switch {
	case !o.Known:
		return "This release does not know its route. Nothing goes on with it here, and nothing gives it up, until a route " +
			"names the pattern in Formerly."
	case o.Resumed:
		who = "The service goes on with it by itself, behind the last finished step, and so does a repeat of its client. "
	}
	if !rec.Now.Before(o.Until) {
		return who + "Its time is over: the next sweep makes it unknown, and then it can be settled."
	}
	return who + "If it does not end by then, it is unknown from " + utc(o.Until) + " on, and can be settled."
}

// goesOn is ahead in a few words.
func goesOn(o operations.Outlook) string {
	switch {
	case !o.Known:
		return "nobody goes on: unknown route"
	case o.Resumed:
		return "goes on by itself; unknown from " + utc(o.Until)
	}
	return "waits for its client; unknown from " + utc(o.Until)
}
