package networkpolicyagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"k8s.io/utils/clock"

	"github.com/coracle-eks/coracle/internal/durable"
	"github.com/coracle-eks/coracle/internal/networkpolicy"
)

// youth is the time for which a pod has the policies of its workload, so that it starts with them. Until then the
// controller has seen the pod.
const youth = 10 * time.Second

// retry is the pause before rules are written again that could not be, and retryRefused that before chains are that the
// kernel has refused.
const retry, retryRefused = time.Second, 30 * time.Second

// enforcer writes rules to the kernel.
type enforcer interface{ replace(*ruleset) error }

// refusedError is the error of what the kernel has refused. Pods whose chains it is have no connections until it takes
// them, and all others what they are to have.
type refusedError []error

func (e refusedError) Error() string { return errors.Join(e...).Error() }

// state is what the agent knows, and makes the kernel enforce.
type state struct {
	log      *zap.SugaredLogger
	kernel   enforcer
	clock    clock.WithTicker
	file     string // of pods
	logFlows bool
	// exists reports whether a pod has an interface. Pods may go while there is no agent.
	exists func(podRef) bool

	changed chan struct{}

	mu        sync.Mutex
	node      netip.Addr
	endpoints map[podRef]*networkpolicy.PolicyEndpoint        // nil until they are known
	cluster   map[podRef]*networkpolicy.ClusterPolicyEndpoint // likewise
	pods      map[podRef]podState
	applied   string
	ready     chan struct{} // closed when the rules are enforced for the first time
}

// podState is what the CNI plugin has said of a pod. The file has it.
type podState struct {
	Strict bool      `json:"strict"`
	Since  time.Time `json:"since"`
}

func newState(log *zap.SugaredLogger, k enforcer, file string) *state {
	return &state{log: log, kernel: k, clock: clock.RealClock{}, file: file, exists: hasLink,
		changed: make(chan struct{}, 1), pods: map[podRef]podState{}, ready: make(chan struct{})}
}

func hasLink(pod podRef) bool {
	return slices.ContainsFunc(linksOf(pod), func(name string) bool {
		_, err := net.InterfaceByName(name)
		return err == nil
	})
}

// load reads the pods that an earlier agent was told of, less those that have gone since.
func (s *state) load() error {
	content, err := os.ReadFile(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var kept map[string]map[string]podState // by namespace and name
	if err := json.Unmarshal(content, &kept); err != nil {
		return fmt.Errorf("pods in %s: %w", s.file, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for namespace, names := range kept {
		for name, pod := range names {
			if ref := (podRef{Namespace: namespace, Name: name}); s.exists(ref) {
				s.pods[ref] = pod
			}
		}
	}
	return nil
}

// save writes the pods. Who calls holds the lock.
func (s *state) save() error {
	kept := map[string]map[string]podState{}
	for ref, pod := range s.pods {
		if kept[ref.Namespace] == nil {
			kept[ref.Namespace] = map[string]podState{}
		}
		kept[ref.Namespace][ref.Name] = pod
	}
	content, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	return durable.WriteFile(s.file, content, 0o600)
}

// setNode sets the address of the node.
func (s *state) setNode(node netip.Addr) { s.change(func() { s.node = node }) }

// change changes what is known of the cluster.
func (s *state) change(how func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how()
	s.wake()
}

func (s *state) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// run keeps the kernel's rules those of the state until ctx ends.
func (s *state) run(ctx context.Context) {
	for {
		next := s.enforce()
		var timer <-chan time.Time
		if next > 0 {
			timer = s.clock.After(next)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
		case <-timer:
		}
	}
}

// enforce enforces the rules, and returns when to do so again without a change; 0: not at all.
func (s *state) enforce() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, err := s.apply()
	if err != nil {
		s.log.Errorf("Failed to update network policy rules: %v", err)
		return retry
	}
	return next
}

// isKnown reports whether the state is complete.
func (s *state) isKnown() bool { return s.node.IsValid() && s.endpoints != nil && s.cluster != nil }

// apply writes the rules unless the kernel has them, and returns how long they hold without a change. Who calls holds
// the lock.
func (s *state) apply() (next time.Duration, err error) {
	if !s.isKnown() {
		return 0, nil // those of an earlier agent stay
	}
	var known []knownPod
	for ref, pod := range s.pods {
		left := youth - s.clock.Since(pod.Since)
		if left > 0 && (next == 0 || left < next) {
			next = left
		}
		known = append(known, knownPod{podRef: ref, Strict: pod.Strict, young: left > 0})
	}
	pods := policiesOfPods(slices.Collect(maps.Values(s.endpoints)), slices.Collect(maps.Values(s.cluster)), s.node,
		known)
	r := design(s.node, pods, s.logFlows)
	if digest := r.digest(); digest != s.applied {
		began := s.clock.Now()
		err := s.kernel.replace(r)
		var refused refusedError
		switch {
		case errors.As(err, &refused): // all others are enforced
			s.log.Errorf("The kernel has refused network policy rules, trying again: %v", err)
			if s.applied = ""; next == 0 || next > retryRefused {
				next = retryRefused
			}
		case err != nil:
			return 0, err
		default:
			s.applied = digest
		}
		for pod, p := range pods {
			if p.tooLarge {
				s.log.Errorf("Pod %s has no connections: its network policies have more than %d addresses and ports, or those "+
					"of all pods of the node more than %d", pod, maxOfPod, maxOfNode)
			}
		}
		setupLatency.Observe(float64(s.clock.Since(began)) / float64(time.Millisecond))
		s.log.Infof("Updated network policy rules: %d chains, %d interfaces with ingress and %d with egress rules",
			len(r.chains), len(r.ingress), len(r.egress))
	}
	select {
	case <-s.ready:
	default:
		close(s.ready)
	}
	return next, nil
}

// errUnknown refuses pods while it is not known what would have to be enforced on them.
var errUnknown = errors.New("the network policies of the cluster are not known yet")

// addPod enforces what there is about a new pod, before it starts.
func (s *state) addPod(ctx context.Context, pod podRef, strict bool) error {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return errUnknown
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	was, there := s.pods[pod]
	s.pods[pod] = podState{Strict: strict, Since: s.clock.Now()}
	restore := func() {
		delete(s.pods, pod)
		if there {
			s.pods[pod] = was
		}
	}
	if err := s.save(); err != nil {
		restore()
		return fmt.Errorf("remember pod %s: %w", pod, err)
	}
	if _, err := s.apply(); err != nil {
		restore()
		return err
	}
	s.wake() // for its youth ends
	return nil
}

// removePod forgets a pod.
func (s *state) removePod(pod podRef) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.pods[pod]; !there {
		return nil
	}
	delete(s.pods, pod)
	s.wake()
	return s.save()
}
