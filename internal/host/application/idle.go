package application

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// errTargetSilent ends a request whose target sends nothing for the idle timeout.
var errTargetSilent = errors.New("the target sends nothing")

// idleWatch ends an exchange on which nothing is received or sent for the idle timeout of the load balancer.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-load-balancer-attributes.html
type idleWatch struct {
	active atomic.Int64
	// reading and writing are set while the exchange waits for its client.
	reading, writing atomic.Bool
	// expired is set once it has ended what waited for the client, broken when the client's body could not be read.
	expired, broken atomic.Bool

	mu    sync.Mutex
	timer *time.Timer
	done  bool
}

func (i *idleWatch) touch() { i.active.Store(int64(time.Since(epoch))) }

// start watches an exchange until stop.
func (i *idleWatch) start(e *exchange) {
	i.touch()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.timer = time.AfterFunc(e.state.idle, func() { i.check(e) })
}

func (i *idleWatch) stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.done = true
	if i.timer != nil {
		i.timer.Stop()
	}
}

// check ends the exchange if it has been idle for too long, and looks again later otherwise.
func (i *idleWatch) check(e *exchange) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.done {
		return
	}
	last := i.active.Load()
	if e.upgraded.Load() {
		last = max(last, e.client.active.Load())
	}
	if left := e.state.idle - (time.Since(epoch) - time.Duration(last)); left > 0 {
		i.timer.Reset(left)
		return
	}
	// What waits in the network ends by its deadline: nothing else wakes it.
	control := http.NewResponseController(e.w.ResponseWriter)
	past := time.Unix(1, 0)
	switch {
	case e.upgraded.Load():
		e.cancel(errTargetSilent)
	case i.reading.Load():
		i.expired.Store(true)
		if control.SetReadDeadline(past) != nil {
			e.cancel(errTargetSilent)
		}
	case i.writing.Load():
		_ = control.SetReadDeadline(past) // net/http reads what is left of the request first
		if control.SetWriteDeadline(past) != nil {
			e.cancel(errTargetSilent)
		}
	default:
		e.cancel(errTargetSilent)
	}
}
