// Package awsauth reads, follows and edits the ConfigMap aws-auth, in which EKS maps the roles of nodes and of Fargate
// pods to users of a cluster.
//
// The ConfigMap belongs to the cluster's users: an edit adds or removes one entry of mapRoles and leaves every other
// character as it is. Callers record what they have mapped; a [Client] only remembers which roles the text maps that it
// read last, as its users make it as long, and change it as often, as they like.
//
// https://docs.aws.amazon.com/eks/latest/userguide/auth-configmap.html
package awsauth

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

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

// Malformed is the error of an edit of a text that cannot be edited, of which nothing was touched. Err says why, for
// its owner.
type Malformed struct{ Err error }

func (m *Malformed) Error() string { return m.Err.Error() }

// Unwrap returns the cause.
func (m *Malformed) Unwrap() error { return m.Err }

const (
	// maxSize is the maximum size of all values of a ConfigMap in bytes, as Kubernetes counts them, and maxKeys that of
	// their keys: a client of etcd sends no more than 2 MiB for an object.
	// https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/core/validation/validation.go, ValidateConfigMap
	maxSize = 1 << 20
	maxKeys = 2 << 20
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
		case '#': // behind a letter it begins no comment; line breaks of YAML and byte order marks end above ASCII
			if before <= ' ' || before >= 0x80 {
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
	values, keys := 0, 0
	for key, value := range m.Data {
		values, keys = values+len(value), keys+len(key)
	}
	for key, value := range m.BinaryData {
		values, keys = values+len(value), keys+len(key)
	}
	if values > maxSize || keys > maxKeys {
		return fmt.Errorf("aws-auth is larger than %d MiB, or its keys are than %d, %w", maxSize>>20, maxKeys>>20,
			client.ErrTooLarge)
	}
	return nil
}

func isAWSAuth(m *corev1.ConfigMap) bool { return m.Namespace == Namespace && m.Name == Name }

// IsMalformed reports whether an error is that of a text that cannot be edited.
func IsMalformed(err error) bool {
	var m *Malformed
	return errors.As(err, &m)
}
