package addon

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/sourcegraph/conc"

	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/recovery"
)

// goodFor is the time for which an image that was found is taken to exist.
const goodFor = 10 * time.Second

// images provides the registry with the images that pods are to run. Getting one may take minutes, so nobody
// waits for it: who wants it is woken.
type images struct {
	provide func(context.Context, catalog.Image) error // nil: nobody looks
	again   time.Duration                              // how soon one that could not be had is tried again

	mu      sync.Mutex
	ctx     context.Context // of run; nil before it
	changed func(string)
	running conc.WaitGroup
	jobs    map[string]*job // by reference
}

// job is the getting of one image.
type job struct {
	image   catalog.Image
	done    bool
	err     error
	at      time.Time
	waiters []string // keys of add-ons
}

func newImages(provide func(context.Context, catalog.Image) error, again time.Duration) *images {
	return &images{provide: provide, again: again, jobs: map[string]*job{}}
}

// watchImages wakes add-ons when their images have arrived, or cannot be fetched.
func (i *images) watchImages(ctx context.Context, changed func(string)) {
	i.mu.Lock()
	i.ctx, i.changed = ctx, changed
	var waiting []string
	for _, j := range i.jobs {
		waiting = append(waiting, j.waiters...)
	}
	clear(i.jobs)
	i.mu.Unlock()
	for _, key := range waiting {
		changed(key)
	}
	<-ctx.Done()
	i.mu.Lock()
	i.ctx = nil
	i.mu.Unlock()
	i.running.Wait()
}

// requestImages asks for images on behalf of an add-on. pending are those that are on their way; missing are why others
// cannot be had, in plain words.
func (i *images) requestImages(key string, all []catalog.Image) (pending bool, missing []string) {
	if i.provide == nil {
		return false, nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, image := range all {
		j := i.jobs[image.Reference]
		switch {
		case j == nil, j.done && j.err == nil && time.Since(j.at) > goodFor, j.done && j.err != nil &&
			time.Since(j.at) > i.again:
			again := &job{image: image}
			if j != nil && j.err != nil {
				again.err, again.waiters = j.err, j.waiters // the reason stays until there is another
			}
			i.jobs[image.Reference], j = again, again
			i.startJob(again)
		}
		if !slices.Contains(j.waiters, key) {
			j.waiters = append(j.waiters, key)
		}
		switch {
		case j.err != nil:
			missing = append(missing, j.err.Error())
		case !j.done:
			pending = true
		}
	}
	return pending, missing
}

// startJob begins a job. It is called with mu held.
func (i *images) startJob(j *job) {
	ctx := i.ctx
	if ctx == nil {
		return // run begins it
	}
	i.running.Go(func() {
		err := recovery.Try(func() error { return i.provide(ctx, j.image) })
		i.mu.Lock()
		j.done, j.err, j.at = true, err, time.Now()
		waiting := slices.Clone(j.waiters)
		i.mu.Unlock()
		if ctx.Err() == nil {
			for _, key := range waiting {
				i.changed(key)
			}
		}
	})
}

// missingReason returns the reason why images of an add-on cannot be fetched, as a further sentence; empty when there
// is none.
func (i *images) missingReason(key string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	var all []string
	for _, j := range i.jobs {
		if j.err != nil && slices.Contains(j.waiters, key) {
			all = append(all, " "+strings.TrimSuffix(oneLine(j.err.Error()), ".")+".")
		}
	}
	slices.Sort(all)
	return strings.Join(all, "")
}

// provideImages requests the images before objects that use them are applied. A new add-on is applied even without
// them, and reports why it has no pods. An update is not, since the pods of the previous version run: it waits until
// the images can be fetched, or its time is over.
func (a *addon) provideImages(all []catalog.Image, want record.AddonConfig) (ready bool, err error) {
	pending, missing := a.e.images.requestImages(a.row.Key(), all)
	if len(missing) > 0 && a.updating() && a.state.AppliedChange > 0 && want.Version != a.state.Applied.Version {
		a.requeueAfter(a.e.images.again)
		return false, &problem{issue: issueOf(ekstypes.AddonIssueCodeInsufficientNumberOfReplicas,
			"The pods of version "+want.Version+" cannot run yet: "+oneLine(strings.Join(missing, "; ")))}
	}
	return !pending, nil
}
