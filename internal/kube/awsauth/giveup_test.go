package awsauth

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestGiveUp has attempts at some times: it is the last one that is to be the last of all, or none.
func TestGiveUp(t *testing.T) {
	t.Parallel()
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, Name, errors.New("no"))
	busy, slow, away := apierrors.NewTooManyRequests("busy", 1), apierrors.NewInternalError(errors.New("slow")),
		errors.New("unreachable")
	type attempt struct {
		after time.Duration
		err   error
	}
	const week = 7 * 24 * time.Hour
	for name, test := range map[string]struct {
		attempts []attempt
		last     bool
	}{
		"refused":                     {[]attempt{{0, refused}, {59 * time.Second, refused}, {time.Second, refused}}, true},
		"refused for less":            {[]attempt{{0, refused}, {59 * time.Second, refused}}, false},
		"away between refusals":       {[]attempt{{0, refused}, {week, away}, {time.Second, refused}}, false},
		"done between refusals":       {[]attempt{{0, refused}, {week, nil}, {time.Second, refused}}, false},
		"away between errors":         {[]attempt{{0, slow}, {week, away}, {time.Second, busy}}, false},
		"errors":                      {[]attempt{{0, slow}, {14 * time.Minute, busy}}, false},
		"errors for long":             {[]attempt{{0, slow}, {15 * time.Minute, busy}}, true},
		"one refusal":                 {[]attempt{{0, slow}, {2 * time.Minute, refused}}, false},
		"refusals and errors in turn": {[]attempt{{0, refused}, {9 * time.Minute, slow}, {9 * time.Minute, refused}}, true},
		"unreachable":                 {[]attempt{{0, away}, {week, away}}, false},
	} {
		var refusedAt, failedAt time.Time
		now := time.Unix(1, 0)
		for i, a := range test.attempts {
			now = now.Add(a.after)
			if got, want := GiveUp(a.err, now, &refusedAt, &failedAt), test.last && i == len(test.attempts)-1; got != want {
				t.Errorf("%s: attempt %d is the last: %t", name, i, got)
			}
		}
	}
}
