package podidentity

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/amazon-eks-pod-identity-webhook/pkg/cache"
	"github.com/sourcegraph/conc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/recovery"
	"github.com/coracle-eks/coracle/internal/sizedcache"
)

const (
	// maxSettings bounds what is kept of the service accounts of a cluster, in bytes.
	maxSettings = 1 << 20
	// maxEntry is the maximum size of the settings of one, with its names, in bytes.
	maxEntry = 2 << 10
	// watchTime is the time without new pods after which the service accounts of a cluster are no longer watched.
	watchTime = 10 * time.Minute
	// watchPause is the time from the end of a watch to the next one; service accounts are read for each pod meanwhile.
	watchPause = 10 * time.Second
)

// errIdle ends the watch of a cluster in which no pods are created.
var errIdle = errors.New("no pods have been created")

// knownSettings caches the settings of the service accounts that pods of a cluster use, as long as a watch reports
// their changes. Nothing is kept of the watched objects themselves, so that memory is bounded whatever service accounts
// a cluster has.
type knownSettings struct {
	watcher conc.WaitGroup

	mu     sync.Mutex
	cancel context.CancelFunc // the watcher
	// changes counts the changes that the watch has reported. What was read before the last one may be out of date.
	changes  uint64
	running  bool                                      // the watcher
	watching bool                                      // the watch reports changes: settings are cached only then
	used     bool                                      // since takeUsed was called last
	ended    time.Time                                 // the last watch
	byName   *sizedcache.Cache[string, cache.Response] // by namespace and name
}

func newKnownSettings() *knownSettings {
	return &knownSettings{cancel: func() {}, byName: newSettingsCache()}
}

func newSettingsCache() *sizedcache.Cache[string, cache.Response] {
	return sizedcache.New[string, cache.Response](maxSettings)
}

// get returns the settings of a service account if they are cached. Otherwise whoever reads them calls add with the
// number of changes that it returns.
func (k *knownSettings) get(name string) (s cache.Response, changes uint64, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.used = true
	if k.watching {
		s, ok = k.byName.Get(name)
	}
	return s, k.changes, ok
}

// add caches settings that were read after the given number of changes, unless others have been reported since.
func (k *knownSettings) add(name string, s cache.Response, changes uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.watching && k.changes == changes {
		k.byName.Add(name, s, maxEntry)
	}
}

// change drops the settings of a service account that has changed.
func (k *knownSettings) change(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changes++
	k.byName.Remove(name)
}

// start makes sure that the service accounts are watched, unless the last watch ended a moment ago.
func (k *knownSettings) start(log *slog.Logger, watch func(ctx context.Context) error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running || time.Since(k.ended) < watchPause {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel, k.running = cancel, true
	k.watcher.Go(func() {
		recovery.Repeat(ctx, log, "watch the service accounts of a cluster", func() {
			defer cancel()
			defer k.end()
			if err := watch(ctx); ctx.Err() == nil && !errors.Is(err, errIdle) {
				log.Debug("service accounts are read for each pod: their watch has ended", "error", err)
			}
		})
	})
}

// stop ends the watch of a cluster that is gone.
func (k *knownSettings) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cancel()
}

// end drops all settings: nothing reports their changes any more.
func (k *knownSettings) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changes++
	k.running, k.watching, k.ended = false, false, time.Now()
	k.byName = newSettingsCache()
}

// watch drops the settings of service accounts that change, until the API server goes away or pods are no longer
// created.
func (k *knownSettings) watch(ctx context.Context, accounts corev1client.ServiceAccountInterface) error {
	from, err := accounts.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	seconds := int64(watchTime.Seconds())
	return client.Watch(ctx, "service accounts", from.ResourceVersion,
		func(ctx context.Context, o metav1.ListOptions) (kubewatch.Interface, error) {
			if !k.takeUsed() {
				return nil, errIdle
			}
			w, err := accounts.Watch(ctx, o)
			if err == nil {
				k.mu.Lock()
				defer k.mu.Unlock()
				k.watching = true
				k.changes++ // what was read before may be older than the beginning of the watch
			}
			return w, err
		}, metav1.ListOptions{TimeoutSeconds: &seconds}, func(_ kubewatch.EventType, account *corev1.ServiceAccount) error {
			k.change(account.Namespace + "/" + account.Name)
			return nil
		})
}

// takeUsed reports whether settings were asked for since it was called last.
func (k *knownSettings) takeUsed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.used
	k.used = false
	return was
}
