package reconcile

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/coracle-eks/coracle/internal/store"
)

// clusterParts is the number of parts of a key that identify a cluster: account, region and name.
const clusterParts = 3

// ownersOf returns whose a key is: an account's, and a cluster's or another resource's of the account.
func ownersOf(key string) []string {
	parts := store.Parts(key)
	return []string{parts[0], store.Key(parts[:min(len(parts), clusterParts)]...)}
}

// turns is the order in which keys are worked on: accounts take turns, and so do the clusters of an account. A cluster
// or an account that holds as many workers as it may waits, and the others do not wait for it.
type turns struct {
	mu  sync.Mutex
	all share
}

// newTurns returns an empty queue for a number of workers, with the limits of an account and of a cluster, 0 for none.
// However long the keys of one account take, those of others have a worker.
func newTurns(workers, perAccount, perCluster int) *turns {
	if perAccount == 0 || perAccount >= workers {
		perAccount = workers - 1
	}
	return &turns{all: share{limits: []int{perAccount, perCluster}, parts: map[string]*share{}}}
}

// Touch does nothing: a key that waits keeps its place.
func (t *turns) Touch(string) {}

// Push adds a key.
func (t *turns) Push(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all.push(ownersOf(key), key)
}

// Len returns how many keys wait; 0 while all of them are of owners that hold as many workers as they may.
func (t *turns) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.all.isReady() {
		return 0
	}
	return t.all.waiting
}

// Pop removes the next key. Its owners hold a worker from then on.
func (t *turns) Pop() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	key, _ := t.all.pop()
	return key
}

// release ends the work on a key. Whoever calls it has to ask for the next key: nobody else is woken.
func (t *turns) release(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all.release(ownersOf(key))
}

// share has the waiting keys of one owner, and the number of workers that it holds.
type share struct {
	limit         int // of workers; 0 is none
	held, waiting int
	keys          []string          // without parts
	limits        []int             // of the parts, and of theirs
	parts         map[string]*share // nil without
	order         []string          // the parts with keys that wait
}

func (s *share) push(owners []string, key string) {
	s.waiting++
	if s.parts == nil {
		s.keys = append(s.keys, key)
		return
	}
	part := s.parts[owners[0]]
	if part == nil {
		part = &share{limit: s.limits[0], limits: s.limits[1:]}
		if len(part.limits) > 0 {
			part.parts = map[string]*share{}
		}
		s.parts[owners[0]] = part
	}
	if part.waiting == 0 {
		s.order = append(s.order, owners[0])
	}
	part.push(owners[1:], key)
}

// isReady reports whether pop finds a key.
func (s *share) isReady() bool {
	if s.waiting == 0 || s.limit > 0 && s.held >= s.limit {
		return false
	}
	return s.parts == nil || slices.ContainsFunc(s.order, func(name string) bool { return s.parts[name].isReady() })
}

func (s *share) pop() (key string, found bool) {
	if s.waiting == 0 || s.limit > 0 && s.held >= s.limit {
		return "", false
	}
	if s.parts == nil {
		key, s.keys = s.keys[0], s.keys[1:]
	} else {
		next := slices.IndexFunc(s.order, func(name string) bool {
			key, found = s.parts[name].pop()
			return found
		})
		if next < 0 {
			return "", false
		}
		name := s.order[next]
		s.order = slices.Delete(s.order, next, next+1)
		if s.parts[name].waiting > 0 {
			s.order = append(s.order, name)
		}
	}
	s.waiting--
	s.held++
	return key, true
}

func (s *share) release(owners []string) {
	s.held--
	if s.parts == nil {
		return
	}
	part := s.parts[owners[0]]
	part.release(owners[1:])
	if part.held == 0 && part.waiting == 0 {
		delete(s.parts, owners[0])
	}
}

// accountRates bounds how often something happens to the keys of one account.
type accountRates struct {
	limit rate.Limit // per second
	burst int

	mu   sync.Mutex
	all  map[string]*rate.Limiter
	most int // of all, before those that bound nothing are forgotten
}

// fewRates is the number of limiters that are always kept.
const fewRates = 64

func newAccountRates(limit rate.Limit, burst int) *accountRates {
	return &accountRates{limit: limit, burst: burst, all: map[string]*rate.Limiter{}, most: fewRates}
}

// limiterOf returns the limiter of the account of a key.
func (r *accountRates) limiterOf(key string) *rate.Limiter {
	account := ownersOf(key)[0]
	r.mu.Lock()
	defer r.mu.Unlock()
	limiter := r.all[account]
	if limiter == nil {
		if len(r.all) >= r.most {
			maps.DeleteFunc(r.all, func(_ string, l *rate.Limiter) bool { return l.Tokens() >= float64(r.burst) })
			r.most = max(fewRates, 2*len(r.all))
		}
		limiter = rate.NewLimiter(r.limit, r.burst)
		r.all[account] = limiter
	}
	return limiter
}

// retryRate bounds how often the keys of one account are tried again after failures.
type retryRate struct{ *accountRates }

// When returns how long a key has to wait.
func (r retryRate) When(key string) time.Duration { return r.limiterOf(key).Reserve().Delay() }

// Forget does nothing: the rate is that of an account.
func (retryRate) Forget(string) {}

// NumRequeues returns 0: failures of a key are counted elsewhere.
func (retryRate) NumRequeues(string) int { return 0 }

// Where an API server can wake a controller as often as it likes, the keys of one account are worked on so many times
// per second; beyond that they wait.
const passRate, passBurst = 100, 1000

// maxError is the number of bytes of an error that are logged and stored. Many errors come from API servers, where
// users' own programs may answer.
const maxError = 8 << 10

// textOf returns the text of an error, or its beginning.
func textOf(err error) string {
	text := err.Error()
	if len(text) <= maxError {
		return text
	}
	return strings.ToValidUTF8(text[:maxError], "") + " ..."
}
