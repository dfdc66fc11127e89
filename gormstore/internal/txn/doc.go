// Package txn has what every transaction of the store needs so that its end is known: messages to the database, what their
// errors say, tries after an error, writes that are never cancelled, and connections that pass nothing any more.
//
// A write is never cancelled because a server that is told to cancel a COMMIT may have committed all the same. So its
// caller waits for it as long as it has time. Then it is told that the outcome is not known, and the write goes on.
package txn
