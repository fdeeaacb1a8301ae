package awsauth

import (
	"errors"
	"time"

	"github.com/coracle-eks/coracle/internal/kube/client"
)

// refusedAfter is the time after which a deletion no longer waits for a cluster that is against the change of aws-auth,
// and failedAfter the time after which it waits for no API server that is reached and does not do it, for whatever
// reason: a cluster decides nothing about the resources of its account. Of what was longer than maxGap, as when the
// daemon did not run, nothing is known.
const refusedAfter, failedAfter, maxGap = time.Minute, 15 * time.Minute, 5 * time.Minute

// GiveUp takes the outcome of another attempt to change aws-auth, and reports whether it is to be the last. refused is
// since when somebody of the cluster has refused each of them, failed since when each has failed at an API server that
// is reached, and tried when the last one was; see [client.IsRefusal].
func GiveUp(err error, now time.Time, refused, failed, tried *time.Time) bool {
	if now.Sub(*tried) > maxGap {
		*refused, *failed = time.Time{}, time.Time{}
	}
	*tried = now
	isFailed := err != nil && !errors.Is(err, client.ErrUnreached)
	isLast := lasts(refused, client.IsRefusal(err), now, refusedAfter)
	return lasts(failed, isFailed, now, failedAfter) || isLast
}

// lasts reports whether something has been so for that long, without an end.
func lasts(since *time.Time, isSo bool, now time.Time, long time.Duration) bool {
	switch {
	case !isSo:
		*since = time.Time{}
	case since.IsZero():
		*since = now
	}
	return isSo && now.Sub(*since) >= long
}
