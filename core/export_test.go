package core

// Defaults and bounds that tests compare with.
const (
	DefaultInvalidRetention = defaultInvalidRetention
	DefaultMaxClockSkew     = defaultMaxClockSkew
	DefaultMaxWaiters       = defaultMaxWaiters
	DefaultRekeyWindow      = defaultRekeyWindow
	DefaultResumeFor        = defaultResumeFor
	DefaultRetryAfter       = defaultRetryAfter
	DefaultSweepEvery       = defaultSweepEvery
	MaxShadow               = maxShadow
)

// ForgetRoute takes the route of h out of the table: who asks for it again finds none.
func (h *Hold) ForgetRoute() { clear(h.m.routes) }

// ForgetRoles gives the route of h roles that nobody has: who checks them again refuses.
func (h *Hold) ForgetRoles() { h.route.Roles = []string{"nobody"} }

// NextBatch is how large the next batch of a sweep is.
var NextBatch = nextBatch
