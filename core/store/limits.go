package store

import "time"

// Defaults of the contract that more than one package asks for. A zero field of core.Policy or core.Config means its
// default.
const (
	DefaultRetention    = 72 * time.Hour      // Policy.Retention (T-2)
	DefaultTombstone    = 30 * 24 * time.Hour // Policy.Tombstone (M-5)
	DefaultLease        = 30 * time.Second    // Policy.Lease
	DefaultDeadline     = 60 * time.Second    // Policy.Deadline
	DefaultMaxBody      = 1 << 20             // Policy.MaxBody, 1 MiB (H-5)
	DefaultKeyAge       = 24 * time.Hour      // Policy.KeyAge of timed keys
	DefaultMaxAttempts  = 200                 // Policy.MaxAttempts
	DefaultPause        = 5 * time.Second     // Policy.ResumePause
	DefaultClaimTimeout = time.Second         // Config.ClaimTimeout
)

// Bounds of the contract.
const (
	MinRetention = 24 * time.Hour   // of Policy.Retention and Policy.Tombstone (T-2)
	MaxRetention = 72 * time.Hour   // of Policy.Retention (T-2)
	MaxPause     = 10 * time.Minute // the longest pause that Policy.ResumePause grows to
	MaxAttempts  = 1000             // of Policy.MaxAttempts
	MinKeyAge    = time.Minute      // of Policy.KeyAge
	// MaxKeyAhead is how far the time of a timed key may be ahead of a clock that judges it.
	MaxKeyAhead = 5 * time.Minute
	// MaxStepResult is the largest recorded result of a step or a call, in bytes of JSON: 64 KiB.
	MaxStepResult = 64 << 10
)
