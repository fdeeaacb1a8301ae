package authenticator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/sourcegraph/conc"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/kube/awsauth"
	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/recovery"
	"github.com/coracle-eks/coracle/internal/store"
)

// firstReadTimeout is the time that an authentication waits for the first read of aws-auth after a start of the daemon.
const firstReadTimeout = 3 * time.Second

// retry bounds the wait between attempts to reach an API server. It is short, so that a change
// of aws-auth counts within two seconds even right after an API server came back.
var retry = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.1, Cap: 500 * time.Millisecond,
	Steps: math.MaxInt32}

// tooLargePause is the wait before an API server is asked again that returned more than there can be.
const tooLargePause = 10 * time.Second

// served is the state of a cluster in memory.
type served struct {
	log *logFile

	mu      sync.Mutex
	pace    *awsauth.Pace // of the validations of aws-auth; nil before the first
	awsAuth *awsAuth      // the last known content
	loaded  chan struct{} // closed once awsAuth is known
}

// clusterState returns the state of a cluster, created at its first use.
func (a *Authenticator) clusterState(clusterID string) *served {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, ok := a.served[clusterID]
	if !ok {
		s = &served{log: newLogFile(a.logFile(clusterID), a.log), loaded: make(chan struct{})}
		a.served[clusterID] = s
	}
	return s
}

// forgetCluster drops what is kept of a cluster that is gone.
func (a *Authenticator) forgetCluster(clusterID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s, ok := a.served[clusterID]; ok {
		s.log.Close()
		delete(a.served, clusterID)
	}
	if a.admission != nil {
		a.admission.Forget(clusterID)
	}
	if a.vpcResource != nil {
		a.vpcResource.Forget(clusterID)
	}
}

// awsAuth returns the content of a cluster's aws-auth as it was last seen.
func (a *Authenticator) awsAuth(ctx context.Context, clusterID string) (*awsAuth, error) {
	s := a.clusterState(clusterID)
	timer := time.NewTimer(firstReadTimeout)
	defer timer.Stop()
	select {
	case <-s.loaded:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
		return nil, errors.New("the ConfigMap kube-system/aws-auth could not be read yet")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.awsAuth, nil
}

// validating returns the pace of the validations of aws-auth of a cluster of an account.
func (s *served) validating(account string) *awsauth.Pace {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pace == nil {
		s.pace = awsauth.NewPace(account)
	}
	return s.pace
}

// setAWSAuth takes over new data of aws-auth, nil for none, and reports what is malformed in it.
func (s *served) setAWSAuth(data map[string]string) {
	parsed, errs := parseAWSAuth(data)
	for _, err := range errs {
		s.log.logger.WithTime(time.Now().UTC()).WithError(err).Warn("error parsing aws-auth; the entry is skipped")
	}
	s.mu.Lock()
	first := s.awsAuth == nil
	s.awsAuth = parsed
	s.mu.Unlock()
	if first {
		close(s.loaded)
	}
}

// watching is a watcher of one cluster's aws-auth.
type watching struct {
	clusterID, endpoint string
	port                int
	stop                context.CancelFunc
	running             *conc.WaitGroup
}

// Run watches aws-auth of every cluster that has a control plane until ctx ends.
func (a *Authenticator) Run(ctx context.Context) error {
	running := map[string]watching{} // by cluster key
	end := func(key string) {
		if w, ok := running[key]; ok {
			w.stop()
			w.running.Wait()
			delete(running, key)
		}
	}
	defer func() {
		for key, w := range running {
			end(key)
			a.forgetCluster(w.clusterID)
		}
	}()
	a.controlPlanes.Notify(ctx, "", func(key string) {
		was, ran := running[key]
		row, err := a.controlPlanes.Get(ctx, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			a.log.Error("cannot watch aws-auth", "cluster", key, "error", err)
			return
		}
		id, endpoint, port := row.Value.ClusterID, row.Value.Endpoint, row.Value.Port
		if ran && id == was.clusterID && endpoint == was.endpoint && port == was.port {
			return
		}
		end(key)
		if ran && id != was.clusterID {
			a.forgetCluster(was.clusterID)
		}
		if id == "" || endpoint == "" || row.Value.Bootstrapped == "" {
			return // until it is, the role that lets EKS read aws-auth is missing
		}
		w := watching{clusterID: id, endpoint: endpoint, port: port, running: conc.NewWaitGroup()}
		var within context.Context
		within, w.stop = context.WithCancel(ctx)
		running[key] = w
		w.running.Go(func() {
			recovery.Repeat(within, a.log, "watch aws-auth", func() { a.watchAWSAuth(within, key, id) })
		})
	})
	return ctx.Err()
}

// watchAWSAuth mirrors a cluster's aws-auth until ctx ends.
func (a *Authenticator) watchAWSAuth(ctx context.Context, key, clusterID string) {
	s := a.clusterState(clusterID)
	maps := a.configMaps(ctx, key, clusterID)
	if maps == nil {
		return
	}
	s.followAWSAuth(ctx, awsauth.NewClient(maps, store.Parts(key)[0]))
}

// followAWSAuth takes over the data of aws-auth until ctx ends. An API server that ends each watch is asked as seldom
// as aws-auth is parsed.
//
// What it had last counts while an API server is down. What is larger than is read counts as empty: whoever can write
// that must not keep mappings in force which it no longer has.
func (s *served) followAWSAuth(ctx context.Context, maps *awsauth.Client) {
	backoff := client.Backoff{First: retry.Duration, Most: awsauth.TellInterval}
	down := false
	log := func() *logrus.Entry { return s.log.logger.WithTime(time.Now().UTC()) }
	for ctx.Err() == nil {
		began := time.Now()
		err := maps.Follow(ctx, func(data map[string]string) {
			if down {
				down = false
				log().Info("watching aws-auth again")
			}
			s.setAWSAuth(data)
		})
		if ctx.Err() != nil {
			return
		}
		wait, state := backoff.After(time.Since(began)), "its last known content stays in force"
		if errors.Is(err, client.ErrTooLarge) {
			wait, state = tooLargePause, "it maps nobody until it can be read" // it takes long to read
			s.setAWSAuth(nil)
		}
		// A watch that has expired is no failure.
		if !down && !apierrors.IsGone(err) && !apierrors.IsResourceExpired(err) {
			down = true
			log().WithError(errors.New(client.Cut(err.Error()))).Error("Unable to re-establish watch of aws-auth; " + state)
		}
		pause(ctx, wait)
	}
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// configMaps returns a client of the ConfigMaps, once the API server can be reached; nil when ctx ended
// or the cluster is gone.
func (a *Authenticator) configMaps(ctx context.Context, key, clusterID string) typedcorev1.ConfigMapsGetter {
	backoff := retry
	for attempt := 0; ; attempt++ {
		core, err := a.clusterClient(ctx, key, clusterID)
		if err == nil {
			return core
		}
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if attempt == 10 {
			a.log.Warn("no way to reach the API server to watch aws-auth; trying on", "cluster", key, "error", err)
		}
		if pause(ctx, backoff.Step()); ctx.Err() != nil {
			return nil
		}
	}
}

func (a *Authenticator) clusterClient(ctx context.Context, key, clusterID string) (*typedcorev1.CoreV1Client, error) {
	row, err := a.clusters.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if row.Value.ID != clusterID {
		return nil, fmt.Errorf("cluster %s has another ID: %w", key, store.ErrNotFound)
	}
	config, err := a.restConfig(ctx, row.Value)
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.UserAgent = userAgent
	connections, err := client.HTTP(config, row.Value.Name)
	if err != nil {
		return nil, err
	}
	return typedcorev1.NewForConfigAndClient(config, connections)
}
