package gormstore

import "github.com/auth19/idem/gormstore/internal/txn"

// The statements of this package. Their SQL files are in internal/dialect. A comment below names the file for each
// group. A statement is for both databases, unless a comment says otherwise.
const (
	// claims.sql
	insertRecord txn.Statement = "insertRecord"
	insertTimed  txn.Statement = "insertTimed"
	lockFirst    txn.Statement = "lockFirst"
	lockAlone    txn.Statement = "lockAlone"
	lockUnknown  txn.Statement = "lockUnknown"
	lookTimed    txn.Statement = "lookTimed"
	takeOver     txn.Statement = "takeOver"
	lookFirst    txn.Statement = "lookFirst"
	lookAnswer   txn.Statement = "lookAnswer"
	held         txn.Statement = "held"
	waitLocks    txn.Statement = "waitLocks"

	// attempts.sql
	renew         txn.Statement = "renew"
	complete      txn.Statement = "complete"
	recordAnswer  txn.Statement = "recordAnswer"
	recordOver    txn.Statement = "recordOver"
	recordRunning txn.Statement = "recordRunning"
	runOver       txn.Statement = "runOver"
	sealRunning   txn.Statement = "sealRunning"
	sealAnswer    txn.Statement = "sealAnswer"
	ownsRecord    txn.Statement = "ownsRecord"
	loseAnswer    txn.Statement = "loseAnswer"
	park          txn.Statement = "park"
	yield         txn.Statement = "yield"
	release       txn.Statement = "release"
	fenceOff      txn.Statement = "fenceOff"
	outrun        txn.Statement = "outrun"
	lockRecord    txn.Statement = "lockRecord"

	// releases.sql
	releaseOwners txn.Statement = "releaseOwners"
	lostRecords   txn.Statement = "lostRecords"
	fenceOffLate  txn.Statement = "fenceOffLate"

	// operations.sql
	find             txn.Statement = "find"
	importRecord     txn.Statement = "importRecord"
	findFor          txn.Statement = "findFor"
	withoutJIT       txn.Statement = "withoutJIT"
	countOpen        txn.Statement = "countOpen"
	count            txn.Statement = "count"
	openSteps        txn.Statement = "openSteps"
	near             txn.Statement = "near"
	history          txn.Statement = "history"
	lastSettled      txn.Statement = "lastSettled"
	lastAnswered     txn.Statement = "lastAnswered"
	settle           txn.Statement = "settle"
	appendSettlement txn.Statement = "appendSettlement"
	adopt            txn.Statement = "adopt"
	due              txn.Statement = "due"
	bury             txn.Statement = "bury"
	drop             txn.Statement = "drop"
	putOff           txn.Statement = "putOff"
	dropStepsOf      txn.Statement = "dropStepsOf"
	dropReferencesOf txn.Statement = "dropReferencesOf"
	erasable         txn.Statement = "erasable"
	erase            txn.Statement = "erase"
	setting          txn.Statement = "setting"
	keepSetting      txn.Statement = "keepSetting"
	keepFirstScoping txn.Statement = "keepFirstScoping"

	// keytimes.sql
	keyFloor        txn.Statement = "keyFloor"
	raiseKeyFloor   txn.Statement = "raiseKeyFloor"
	raiseKeyFloors  txn.Statement = "raiseKeyFloors"
	raiseAgedFloors txn.Statement = "raiseAgedFloors"
	keepFirst       txn.Statement = "keepFirst"
	lockSetting     txn.Statement = "lockSetting"

	// steps.sql
	putSteps    txn.Statement = "putSteps"
	stepsOf     txn.Statement = "stepsOf"
	stepAt      txn.Statement = "stepAt"
	dropSteps   txn.Statement = "dropSteps"
	forgetSteps txn.Statement = "forgetSteps"

	// references.sql
	refer        txn.Statement = "refer"
	referencesOf txn.Statement = "referencesOf"
	referred     txn.Statement = "referred"

	flow txn.Statement = "flow"

	annotate     txn.Statement = "annotate"
	notesOf      txn.Statement = "notesOf"
	turnProposal txn.Statement = "turnProposal"
	blankNotesOf txn.Statement = "blankNotesOf"

	// commands.sql
	logCommand     txn.Statement = "logCommand"
	insertCommand  txn.Statement = "insertCommand"
	forgetCommands txn.Statement = "forgetCommands"

	// messages.sql
	forgetMessages txn.Statement = "forgetMessages"
	raiseFloor     txn.Statement = "raiseFloor"
)
