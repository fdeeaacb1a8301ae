package awsauth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/coracle-eks/coracle/internal/turn"
)

// ErrTooOften reports that the aws-auth of a cluster is parsed too often.
var ErrTooOften = errors.New("aws-auth is changed too often to be looked at each time; try again")

// valueCost is the number of bytes whose parsing takes as long as that of a value.
const valueCost = 50

// Pace has those parse aws-auth whom its users call: in the turns of everybody who parses it, and no more of it than
// [Client] does. Nobody waits for the pace. It is safe for concurrent use.
type Pace struct {
	account string
	parsing *rate.Limiter // in bytes
	parsers *turn.Places
}

// NewPace returns the pace of a cluster of an account.
func NewPace(account string) *Pace {
	return &Pace{account: account, parsing: rate.NewLimiter(parseRate, parseBurst), parsers: parsers}
}

// InTurn calls f, which parses the data of an aws-auth, once it is the account's turn, or is ErrTooOften at once.
func (p *Pace) InTurn(ctx context.Context, data map[string]string, f func()) error {
	if !p.parsing.AllowN(time.Now(), min(parseCost(data), parseBurst)) {
		return ErrTooOften
	}
	_, release, err := p.parsers.Acquire(ctx, p.account)
	if err != nil {
		return fmt.Errorf("wait to parse aws-auth: %w", err)
	}
	defer release()
	f()
	return nil
}

// parseCost returns what parsing the data of an aws-auth takes, in bytes of a text with few values.
func parseCost(data map[string]string) (cost int) {
	for _, key := range []string{MapRoles, "mapUsers", "mapAccounts"} {
		text := data[key]
		if cost += len(text); len(text) <= maxSize {
			cost += valueCost * min(countNodes(text), maxNodes)
		}
	}
	return cost
}
