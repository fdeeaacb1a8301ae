package awsauth

import (
	"time"

	"github.com/coracle-eks/coracle/internal/kube/client"
)

// refusedAfter is the time after which a deletion no longer waits for a cluster that is against the change of aws-auth,
// and failedAfter the time after which it waits for no API server that answers otherwise: a cluster decides nothing
// about the resources of its account.
const refusedAfter, failedAfter = time.Minute, 15 * time.Minute

// GiveUp takes the outcome of another attempt to change aws-auth, and reports whether it is to be the last. refused is
// since when somebody of the cluster has refused each of them, and failed since when its API server has answered each
// with an error; see [client.IsRefusal].
func GiveUp(err error, now time.Time, refused, failed *time.Time) bool {
	return lasts(refused, client.IsRefusal(err), now, refusedAfter) ||
		lasts(failed, client.IsAnswer(err), now, failedAfter)
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
