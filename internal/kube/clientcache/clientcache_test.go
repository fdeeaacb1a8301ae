package clientcache

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
)

func TestClientsAreKept(t *testing.T) {
	t.Parallel()
	k := New(func(context.Context, record.Cluster) (*rest.Config, error) {
		return &rest.Config{Host: "https://localhost"}, nil
	}, "agent")
	cluster := record.Cluster{ID: "C", SigningAuthorityID: "first"}
	get := func() *client.Client {
		t.Helper()
		c, err := k.Get(t.Context(), cluster)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	unreachable := &client.Unreachable{Err: errors.New("no answer")}
	was := get()
	k.DropUnreachable(cluster.ID, was, errors.New("something else"))
	k.DropUnreachable("other", was, unreachable)
	if get() != was {
		t.Error("a client that works is made again")
	}
	for what, change := range map[string]func(){
		"another authority signs":         func() { cluster.SigningAuthorityID += "+" },
		"the API server does not answer":  func() { k.DropUnreachable(cluster.ID, was, unreachable) },
		"the certificate is not accepted": func() { k.DropUnreachable(cluster.ID, was, apierrors.NewUnauthorized("")) },
		"the cluster is gone":             func() { k.Forget(cluster.ID) },
	} {
		change()
		is := get()
		if is == was {
			t.Errorf("%s, and the client is the same", what)
		}
		was = is
	}
}
