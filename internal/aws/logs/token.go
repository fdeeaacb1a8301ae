package logs

import (
	"fmt"
	"math/big"

	"github.com/coracle-eks/coracle/internal/logs/events"
)

// An event's ID is a number of 56 decimal digits as on AWS: its timestamp in the bits from 144 on, below them its
// position in the group. In their order IDs are positions.

const (
	idDigits  = 56
	timeShift = 144
)

// eventID returns the ID of the event at a position.
func eventID(p events.Position) string {
	n := new(big.Int).SetInt64(p.Timestamp)
	n.Lsh(n, timeShift)
	n.Or(n, new(big.Int).SetUint64(p.Seq))
	return fmt.Sprintf("%0*d", idDigits, n)
}

// parseEventID parses what eventID returns; false for anything else.
func parseEventID(text string) (events.Position, bool) {
	if len(text) != idDigits {
		return events.Position{}, false
	}
	n, ok := new(big.Int).SetString(text, 10)
	if !ok || n.Sign() < 0 {
		return events.Position{}, false
	}
	timestamp := new(big.Int).Rsh(n, timeShift)
	seq := n.Sub(n, new(big.Int).Lsh(timestamp, timeShift))
	if !timestamp.IsInt64() || !seq.IsUint64() {
		return events.Position{}, false
	}
	return events.Position{Timestamp: timestamp.Int64(), Seq: seq.Uint64()}, true
}

// sequenceToken returns what AWS still answers where it has ignored sequence tokens since 2023: 56 digits that mean
// nothing.
func sequenceToken(ingested int64, seq uint64) *string {
	return new("4" + eventID(events.Position{Timestamp: ingested, Seq: seq})[1:])
}
