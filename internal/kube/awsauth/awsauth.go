// Package awsauth reads, follows and edits the ConfigMap aws-auth, in which EKS maps the roles of nodes and of Fargate
// pods to users of a cluster.
//
// The ConfigMap belongs to the cluster's users: an edit adds or removes one entry of mapRoles and leaves every other
// character as it is. The package keeps nothing; its callers record what they have mapped.
//
// https://docs.aws.amazon.com/eks/latest/userguide/auth-configmap.html
package awsauth

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/coracle-eks/coracle/internal/kube/client"
)

const (
	// Namespace is the namespace of the ConfigMap.
	Namespace = "kube-system"
	// Name is its name.
	Name = "aws-auth"
	// MapRoles is the key of its data that maps roles.
	MapRoles = "mapRoles"
)

// Mapping is what a role becomes in the cluster.
type Mapping struct {
	Username string
	Groups   []string
}

var (
	// Nodes is the mapping of the role of nodes.
	Nodes = Mapping{Username: "system:node:{{EC2PrivateDNSName}}",
		Groups: []string{"system:bootstrappers", "system:nodes"}}
	// FargatePods is the mapping of a pod execution role.
	FargatePods = Mapping{Username: "system:node:{{SessionName}}",
		Groups: []string{"system:bootstrappers", "system:nodes", "system:node-proxier"}}
)

// Role returns a role as aws-auth knows it: the authenticator compares roles without their paths.
func Role(account, name string) string { return "arn:aws:iam::" + account + ":role/" + name }

// Malformed is the error of an edit of a text that cannot be edited, of which nothing was touched. Err says what is
// wrong with it, for its owner.
type Malformed struct{ Err error }

func (m *Malformed) Error() string { return m.Err.Error() }

// Unwrap returns the cause.
func (m *Malformed) Unwrap() error { return m.Err }

const (
	// maxSize is the maximum size of the data of a ConfigMap in bytes.
	maxSize = 1 << 20
	// maxNodes is the maximum number of characters in a part of it that may begin a value of YAML or a comment. An entry
	// as EKS writes it has about ten.
	maxNodes = 20_000
)

// CheckSize refuses a text that no ConfigMap can have, or that has more values than is parsed: each takes a few hundred
// bytes, so that a megabyte of "a,a,a" would take two hundred.
func CheckSize(text string) error {
	if len(text) > maxSize {
		return fmt.Errorf("aws-auth is larger than %d MiB, %w", maxSize>>20, client.ErrTooLarge)
	}
	if countNodes(text) > maxNodes {
		return fmt.Errorf("aws-auth has more than %d values in one key, %w", maxNodes, client.ErrTooLarge)
	}
	return nil
}

// countNodes returns how many characters of a text of YAML may begin a value or a comment. No value but the first is
// without one, and of one come no more than a few values. It counts those in texts, too, but for the colons within
// words such as ARNs.
func countNodes(text string) (n int) {
	for i := range len(text) {
		before, after := byte('\n'), byte('\n')
		if i > 0 {
			before = text[i-1]
		}
		if i+1 < len(text) {
			after = text[i+1]
		}
		switch text[i] {
		case ',', '[', '{', '?':
			n++
		case '#': // elsewhere it begins no comment
			if strings.ContainsRune(" \t\r\n", rune(before)) {
				n++
			}
		case '-': // words have it
			if !isWord(after) && after != '-' {
				n++
			}
		case ':':
			if !isWord(before) || !isWord(after) {
				n++
			}
		}
	}
	return n
}

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// check refuses a ConfigMap that no API server of Kubernetes can have stored as aws-auth.
func check(m *corev1.ConfigMap) error {
	if !client.IsPossible(m) || !isAWSAuth(m) {
		return errors.New("the API server returns what it cannot have")
	}
	size := 0
	for key, value := range m.Data {
		size += len(key) + len(value)
	}
	for key, value := range m.BinaryData {
		size += len(key) + len(value)
	}
	if size > maxSize {
		return fmt.Errorf("aws-auth is larger than %d MiB, %w", maxSize>>20, client.ErrTooLarge)
	}
	return nil
}

func isAWSAuth(m *corev1.ConfigMap) bool { return m.Namespace == Namespace && m.Name == Name }

// get reads the ConfigMap; it returns nil when there is none. Nothing else in Coracle reads it but Follow: the test of
// internal/importrules refuses other readers of ConfigMaps.
func get(ctx context.Context, maps corev1client.ConfigMapInterface) (*corev1.ConfigMap, error) {
	m, err := maps.Get(ctx, Name, metav1.GetOptions{})
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

// Read returns the text of mapRoles; empty without a ConfigMap.
func Read(ctx context.Context, maps corev1client.ConfigMapsGetter) (string, error) {
	text, _, err := ReadVersion(ctx, maps)
	return text, err
}

// ReadVersion is [Read], and returns the resource version of the ConfigMap, too: with the same one the text is the
// same. It is empty without a ConfigMap.
func ReadVersion(ctx context.Context, maps corev1client.ConfigMapsGetter) (text, version string, err error) {
	m, err := get(ctx, maps.ConfigMaps(Namespace))
	if m == nil || err != nil {
		return "", "", err
	}
	return m.Data[MapRoles], m.ResourceVersion, nil
}

// Follow calls changed with the data of the ConfigMap, nil for none, and again whenever it changes, until the API
// server goes away or returns what is larger than a ConfigMap.
func Follow(ctx context.Context, getter corev1client.ConfigMapsGetter, changed func(data map[string]string)) error {
	maps := getter.ConfigMaps(Namespace)
	only := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, Name).String()}
	var data map[string]string
	var refused error
	from, err := client.EachPage(ctx, only, maps.List, func(page *corev1.ConfigMapList) {
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
	changed(data)
	data = nil // not to hold it
	return client.Watch(ctx, Name, from, maps.Watch, only, func(what kubewatch.EventType, m *corev1.ConfigMap) error {
		if !isAWSAuth(m) {
			return nil
		}
		if what == kubewatch.Deleted {
			changed(nil)
			return nil
		}
		if err := check(m); err != nil {
			return fmt.Errorf("watch aws-auth: %w", err)
		}
		changed(m.Data)
		return nil
	})
}

// attempts is the number of immediate retries of an edit when it conflicts with another.
const attempts = 10

// Edit changes mapRoles, and nothing else in aws-auth, as a field manager. The error of edit becomes a *Malformed.
func Edit(ctx context.Context, getter corev1client.ConfigMapsGetter, manager string,
	edit func(text string) (string, error)) error {
	maps := getter.ConfigMaps(Namespace)
	var err error
	for range attempts {
		m, wrong := get(ctx, maps)
		if wrong != nil {
			return wrong
		}
		absent := m == nil
		if absent {
			m = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name}}
		}
		text, wrong := edit(m.Data[MapRoles])
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
			_, err = maps.Create(ctx, m, metav1.CreateOptions{FieldManager: manager})
		} else {
			_, err = maps.Update(ctx, m, metav1.UpdateOptions{FieldManager: manager})
		}
		if err == nil {
			return nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			break
		}
	}
	return fmt.Errorf("write aws-auth: %w", err)
}

// IsMalformed reports whether an error is that of a text that cannot be edited.
func IsMalformed(err error) bool {
	var m *Malformed
	return errors.As(err, &m)
}
