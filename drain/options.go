package drain

import "time"

// Defaults of Options, used for zero and negative values.
const (
	DefaultTimeout    = 10 * time.Minute
	DefaultRetryDelay = 5 * time.Second
)

// Options says what a drain may delete and how long it may take. The zero value deletes only managed pods without local
// data, gives them their own grace period, and ends after DefaultTimeout.
type Options struct {
	LocalData  Consent // pods whose emptyDir volumes may be lost
	Unmanaged  Consent // pods that no controller will create again
	Timeout    time.Duration
	RetryDelay time.Duration // between two evictions of the same pod; a longer Retry-After of the API server wins

	// Logf is told each change worth a line, never concurrently. It may be nil.
	Logf func(format string, args ...any)
}

// withDefaults fills in what was left out, so that no zero value means "for ever" or "without a pause".
func (o Options) withDefaults() Options {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.RetryDelay <= 0 {
		o.RetryDelay = DefaultRetryDelay
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	return o
}
