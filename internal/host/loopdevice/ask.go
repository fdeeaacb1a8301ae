//go:build linux

package loopdevice

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrSilent is the error of what is asked of a device that does not answer: as long as the kernel waits for writes to
// it, whoever opens it waits, too, and cannot be killed.
var ErrSilent = errors.New("the device does not answer")

// patience bounds how long a device may take to answer. What it was asked goes on afterwards.
const patience = 10 * time.Second

// questions has the devices that are asked something, each by one goroutine at a time: those that never answer keep no
// more than one each.
var questions struct {
	sync.Mutex
	asked map[int]question
}

type question struct {
	began time.Time
	ended chan struct{}
}

// begin notes that a device is asked something, until end is called. While it is asked something else, it waits.
func begin(number int, limit <-chan time.Time) (end func(), err error) {
	for {
		questions.Lock()
		before, waits := questions.asked[number]
		if !waits {
			q := question{time.Now(), make(chan struct{})}
			if questions.asked == nil {
				questions.asked = map[int]question{}
			}
			questions.asked[number] = q
			questions.Unlock()
			return func() {
				questions.Lock()
				defer questions.Unlock()
				delete(questions.asked, number)
				close(q.ended)
			}, nil
		}
		questions.Unlock()
		select {
		case <-before.ended:
		case <-limit:
			return nil, fmt.Errorf("loop device %d: %w", number, ErrSilent)
		}
	}
}

// ask calls f, which asks a device something, and waits for its end for a while.
func ask[T any](number int, patience time.Duration, f func() (T, error)) (answer T, err error) {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	end, err := begin(number, limit.C)
	if err != nil {
		return answer, err
	}
	type result struct {
		answer T
		err    error
	}
	answered := make(chan result, 1)
	go func() {
		defer end()
		answer, err := f()
		answered <- result{answer, err}
	}()
	select {
	case r := <-answered:
		return r.answer, r.err
	case <-limit.C:
		return answer, fmt.Errorf("loop device %d: %w", number, ErrSilent)
	}
}

// askError is ask for what has no answer but its error.
func askError(number int, patience time.Duration, f func() error) error {
	_, err := ask(number, patience, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// isSilent reports whether a device has been asked something that it has not answered for that long.
func isSilent(number int, since time.Duration) bool {
	questions.Lock()
	defer questions.Unlock()
	q, asked := questions.asked[number]
	return asked && time.Since(q.began) > since
}
