package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
)

// Answers remembers the answers to requests that carried a client token.
type Answers interface {
	// Answer returns what SaveAnswer stored under key, and whether there is such a thing.
	Answer(ctx context.Context, key string) ([]byte, bool, error)
	// SaveAnswer stores value under key, for at least a day.
	SaveAnswer(ctx context.Context, key string, value []byte) error
}

// answer is what is remembered: the parameters' hash, and the output as its protocol would send it.
type answer struct {
	Parameters string          `json:"parameters"`
	Output     json.RawMessage `json:"output"`
}

// Idempotent runs do once for each client token: the same token with the same parameters gives the same answer again, the same token with other
// parameters gives the service's mismatch error (IdempotentParameterMismatch). Without a token do simply runs. A failed do is not remembered.
//
// Tokens are per account, region and operation. Requests with one token wait for each other within a daemon; between daemons the
// service's own compare-and-set decides.
func Idempotent[Out any](ctx context.Context, answers Answers, token *string, do func(context.Context) (*Out, error)) (*Out, error) {
	if token == nil || *token == "" {
		return do(ctx)
	}
	c := callFrom(ctx)
	if c.service == nil {
		return nil, fmt.Errorf("wire.Idempotent: the context belongs to no request")
	}
	schema, err := outputPlan(c, reflect.TypeFor[Out]())
	if err != nil {
		return nil, err
	}
	key := strings.Join([]string{c.caller.Account, c.region, c.service.SigningName, c.operation, *token}, "/")
	defer lockToken(key)()

	parameters := fingerprint(c.input, false)
	stored, found, err := answers.Answer(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read the answer to client token %s: %w", *token, err)
	}
	if found {
		var a answer
		if err := json.Unmarshal(stored, &a); err != nil {
			return nil, fmt.Errorf("read the answer to client token %s: %w", *token, err)
		}
		if a.Parameters != parameters {
			return nil, &Error{
				Code:    c.service.mismatch,
				Message: fmt.Sprintf("The client token %s was used before, with other parameters. Use a new token for a different request.", *token),
				Status:  http.StatusBadRequest,
			}
		}
		out := new(Out)
		value, err := readJSON(a.Output)
		if err == nil {
			err = decodeJSON(schema, formatDefault, value, reflect.ValueOf(out))
		}
		if err != nil {
			return nil, fmt.Errorf("read the answer to client token %s: %w", *token, err)
		}
		return out, nil
	}
	out, err := do(ctx)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(answer{Parameters: parameters, Output: appendJSON(nil, schema, formatDefault, reflect.ValueOf(out))})
	if err != nil {
		return nil, fmt.Errorf("remember the answer to client token %s: %w", *token, err)
	}
	if err := answers.SaveAnswer(ctx, key, text); err != nil {
		return nil, fmt.Errorf("remember the answer to client token %s: %w", *token, err)
	}
	return out, nil
}

func outputPlan(c *call, t reflect.Type) (*plan, error) {
	op, ok := plannerOf(c.service).model.Operation(c.operation)
	if !ok {
		return nil, fmt.Errorf("wire.Idempotent: %s is not an operation of %s", c.operation, c.service.Name)
	}
	return plannerOf(c.service).of(t, op.Output), nil
}

// tokenLocks holds a lock for every token in hand.
var tokenLocks = struct {
	sync.Mutex
	held map[string]*tokenLock
}{held: map[string]*tokenLock{}}

type tokenLock struct {
	sync.Mutex
	users int
}

// lockToken waits until no other request holds the token and returns what releases it.
func lockToken(key string) (release func()) {
	tokenLocks.Lock()
	l := tokenLocks.held[key]
	if l == nil {
		l = &tokenLock{}
		tokenLocks.held[key] = l
	}
	l.users++
	tokenLocks.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		tokenLocks.Lock()
		defer tokenLocks.Unlock()
		if l.users--; l.users == 0 {
			delete(tokenLocks.held, key)
		}
	}
}
