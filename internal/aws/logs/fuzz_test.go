package logs

import (
	"encoding/base64"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/record"
)

// FuzzToken shows that a token of a page of events leads to the place that it names, in answer to the request that it
// is for, and that a pointer to an event does.
func FuzzToken(f *testing.F) {
	in := &cloudwatchlogs.FilterLogEventsInput{
		LogGroupName:  aws.String("/aws/eks/demo/cluster"),
		FilterPattern: aws.String("ERROR"),
	}
	c := cursor{position: &events.Position{Timestamp: 1_790_000_000_000, Seq: 7}, backward: true}
	for _, seed := range []string{c.String(), filterToken(c, in),
		record.LogPointer{GroupID: 1, Timestamp: 2, Seq: 3}.String(), "f/", "b/x/s", ""} {
		f.Add([]byte(seed), false)
	}
	f.Add([]byte(c.String()+"/"+filterFingerprint(in)), true)
	f.Fuzz(func(t *testing.T, raw []byte, encode bool) {
		token := string(raw)
		if encode {
			token = base64.RawURLEncoding.EncodeToString(raw)
		}
		if got, err := parseCursor(token); err == nil {
			if again, err := parseCursor(got.String()); err != nil || *again.position != *got.position ||
				again.backward != got.backward {
				t.Fatalf("%q is %s, and that is %s: %v", token, got, again, err)
			}
		}
		if got, err := openFilterToken(token, in); err == nil {
			if again, err := openFilterToken(filterToken(got, in), in); err != nil || *again.position != *got.position {
				t.Fatalf("%q is %s, and that is %s: %v", token, got, again, err)
			}
			other := &cloudwatchlogs.FilterLogEventsInput{LogGroupName: in.LogGroupName}
			if _, err := openFilterToken(token, other); err == nil {
				t.Fatalf("%q is good for another request", token)
			}
		}
		if got, ok := record.ParseLogPointer(token); ok {
			if again, ok := record.ParseLogPointer(got.String()); !ok || again != got {
				t.Fatalf("%q is %s, and that is %s", token, got, again)
			}
		}
	})
}
