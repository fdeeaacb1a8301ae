package awsauth

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sourcegraph/conc"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/turn"
)

const (
	// TellInterval is the shortest time between two calls that Follow makes, in the long run; tellBurst are made at once.
	TellInterval = time.Second
	tellBurst    = 5

	// parseRate is the number of bytes of aws-auth that edits and look-ups parse per second, in the long run. A MiB has a
	// thousand entries of EKS; parseBurst are parsed at once.
	parseRate  = maxSize
	parseBurst = 8 * maxSize

	// parsersOfAll is the number of texts that are parsed at a time, and parsersOfAccount that of those of an account's
	// clusters. Each takes up to 20 MiB meanwhile.
	parsersOfAll, parsersOfAccount = 8, 2
)

// parsers are the places in which texts are parsed.
var parsers = newParsers()

func newParsers() *turn.Places { return turn.Shared(parsersOfAll, parsersOfAll-parsersOfAccount) }

// Client reads, follows and edits the aws-auth of one cluster. What its users make it cost is bounded: how often and
// how much of it is parsed, and how many clusters of the account have theirs parsed at a time. It is safe for
// concurrent use.
type Client struct {
	account string
	maps    corev1client.ConfigMapInterface
	telling *rate.Limiter
	parsing *rate.Limiter // in bytes
	parsers *turn.Places

	mu      sync.Mutex
	version string // of the ConfigMap when it was parsed last
	roles   *Roles // likewise
}

// NewClient returns a client of the aws-auth of a cluster of an account. Nothing else in Coracle reads it: the test of
// internal/importrules refuses other readers of ConfigMaps.
func NewClient(getter corev1client.ConfigMapsGetter, account string) *Client {
	return &Client{
		account: account, maps: getter.ConfigMaps(Namespace),
		telling: rate.NewLimiter(rate.Every(TellInterval), tellBurst),
		parsing: rate.NewLimiter(parseRate, parseBurst),
		parsers: parsers,
	}
}

// parse calls f, which parses so many bytes, once it may.
func (c *Client) parse(ctx context.Context, bytes int, f func()) error {
	if err := c.parsing.WaitN(ctx, min(bytes, parseBurst)); err != nil {
		return fmt.Errorf("wait to parse aws-auth: %w", err)
	}
	_, release, err := c.parsers.Acquire(ctx, c.account)
	if err != nil {
		return fmt.Errorf("wait to parse aws-auth: %w", err)
	}
	defer release()
	f()
	return nil
}

// get reads the ConfigMap; it returns nil when there is none.
func (c *Client) get(ctx context.Context) (*corev1.ConfigMap, error) {
	m, err := c.maps.Get(ctx, Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err == nil {
		err = check(m)
	}
	if err != nil {
		return nil, fmt.Errorf("read aws-auth: %w", err)
	}
	return m, nil
}

// Maps reports whether aws-auth maps a role, to anything. It is parsed once for each of its versions; one that is
// malformed maps nobody.
func (c *Client) Maps(ctx context.Context, role string) (bool, error) {
	m, err := c.get(ctx)
	if m == nil || err != nil {
		return false, err
	}
	text, version := m.Data[MapRoles], m.ResourceVersion
	roles := c.rolesOf(version)
	if roles == nil {
		err := c.parse(ctx, len(text), func() {
			if roles = c.rolesOf(version); roles == nil { // nobody has parsed it meanwhile
				roles = ParseRoles(text)
				c.mu.Lock()
				defer c.mu.Unlock()
				c.version, c.roles = version, roles
			}
		})
		if err != nil {
			return false, err
		}
	}
	has, malformed := roles.Has(role)
	return has && malformed == nil, nil
}

// rolesOf returns the roles of a version of the ConfigMap, nil when another one was parsed last.
func (c *Client) rolesOf(version string) *Roles {
	c.mu.Lock()
	defer c.mu.Unlock()
	if version == "" || c.version != version {
		return nil
	}
	return c.roles
}

// Follow calls changed with the data of the ConfigMap, nil for none, and again whenever it changes, until the API
// server goes away or returns what is larger than a ConfigMap. It calls it no more often than once in TellInterval in
// the long run, and leaves out what has changed again by then. changed parses what it is given, and does not wait.
func (c *Client) Follow(ctx context.Context, changed func(data map[string]string)) error {
	latest := make(chan map[string]string, 1)
	following, stop := context.WithCancel(ctx)
	defer stop()
	var telling conc.WaitGroup
	telling.Go(func() {
		defer stop() // also when changed panics
		c.tellLatest(ctx, latest, changed)
	})
	defer telling.Wait() // what was heard last is told, also when the watch has ended
	defer close(latest)
	return c.follow(following, func(data map[string]string) {
		select {
		case <-latest:
		default:
		}
		latest <- data // nobody else sends
	})
}

// tellLatest calls changed with what comes, until latest is closed or ctx ends.
func (c *Client) tellLatest(ctx context.Context, latest <-chan map[string]string, changed func(map[string]string)) {
	for data := range latest {
		if c.telling.Wait(ctx) != nil {
			return
		}
		_, release, err := c.parsers.Acquire(ctx, c.account)
		if err != nil {
			return
		}
		select {
		case newer, ok := <-latest:
			if ok {
				data = newer
			}
		default:
		}
		func() {
			defer release()
			changed(data)
		}()
	}
}

// follow calls heard with what Follow tells, each time, and does not wait.
func (c *Client) follow(ctx context.Context, heard func(data map[string]string)) error {
	only := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, Name).String()}
	var data map[string]string
	var refused error
	from, err := client.EachPage(ctx, only, c.maps.List, func(page *corev1.ConfigMapList) {
		for i := range page.Items {
			if m := &page.Items[i]; isAWSAuth(m) {
				data, refused = m.Data, check(m)
			}
		}
	})
	if err == nil {
		err = refused
	}
	if err != nil {
		return fmt.Errorf("list aws-auth: %w", err)
	}
	heard(data)
	data = nil // not to hold it
	return client.Watch(ctx, Name, from, c.maps.Watch, only, func(what kubewatch.EventType, m *corev1.ConfigMap) error {
		if !isAWSAuth(m) {
			return nil
		}
		if what == kubewatch.Deleted {
			heard(nil)
			return nil
		}
		if err := check(m); err != nil {
			return fmt.Errorf("watch aws-auth: %w", err)
		}
		heard(m.Data)
		return nil
	})
}

// attempts is the number of immediate retries of an edit when it conflicts with another.
const attempts = 10

// Edit changes mapRoles, and nothing else in aws-auth, as a field manager. edit calls methods of a [Mapping]; its error
// becomes a *Malformed. The error of an API server that refuses to have aws-auth read or written is one of
// [client.IsRefusal].
func (c *Client) Edit(ctx context.Context, manager string, edit func(text string) (string, error)) error {
	var err error
	for range attempts {
		m, wrong := c.get(ctx)
		if wrong != nil {
			return wrong
		}
		absent := m == nil
		if absent {
			m = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name}}
		}
		var text string
		waiting := c.parse(ctx, editCost(m.Data[MapRoles]), func() { text, wrong = edit(m.Data[MapRoles]) })
		if waiting != nil {
			return waiting
		}
		if wrong != nil {
			return &Malformed{wrong}
		}
		if text == m.Data[MapRoles] {
			return nil
		}
		if m.Data == nil {
			m.Data = map[string]string{}
		}
		m.Data[MapRoles] = text
		if absent {
			_, err = c.maps.Create(ctx, m, metav1.CreateOptions{FieldManager: manager})
		} else {
			_, err = c.maps.Update(ctx, m, metav1.UpdateOptions{FieldManager: manager})
		}
		if err == nil {
			return nil
		}
		again := apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
		if !again || client.IsRefusal(err) {
			break
		}
	}
	return fmt.Errorf("write aws-auth: %w", err)
}
