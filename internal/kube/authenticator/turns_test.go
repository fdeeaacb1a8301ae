package authenticator

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/coracle-eks/coracle/internal/record"
)

// TestReviewsTakeTurns shows that a cluster leaves room for others of its account, and an account for other accounts,
// however many reviews they ask for; and that nothing is kept of those that have ended.
func TestReviewsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newTurns()
		var ends []func()
		begin := func(account, id string, n int) {
			t.Helper()
			for range n {
				end, err := all.begin(t.Context(), record.Cluster{Account: account, ID: id})
				if err != nil {
					t.Fatalf("a review of cluster %s: %v", id, err)
				}
				ends = append(ends, end)
			}
		}
		refused := func(account, id string) {
			t.Helper()
			began := time.Now()
			_, err := all.begin(t.Context(), record.Cluster{Account: account, ID: id})
			if waited := time.Since(began); !errors.Is(err, errNoTurn) || waited != reviewWait {
				t.Errorf("one review too many of cluster %s: %v after %s", id, err, waited)
			}
		}
		begin("1", "a", maxClusterReviews)
		refused("1", "a")
		begin("1", "b", maxAccountReviews-maxClusterReviews)
		refused("1", "c")
		begin("2", "d", maxClusterReviews)

		next := make(chan func())
		go func() {
			end, err := all.begin(t.Context(), record.Cluster{Account: "1", ID: "a"})
			if err != nil {
				t.Error(err)
			}
			next <- end
		}()
		synctest.Wait()
		ends[0]()
		for _, end := range append(ends[1:], <-next) {
			end()
		}
		if n := all.clusters.Holders() + all.accounts.Holders(); n != 0 {
			t.Errorf("%d holders are left", n)
		}
	})
}

// TestUnknownTokensHoldUpNoAuthorization asks for an authorization while as many tokens are looked into as may be, and
// for one token more.
func TestUnknownTokensHoldUpNoAuthorization(t *testing.T) {
	t.Parallel()
	f := newFixture(t, ekstypes.AuthenticationModeApi)
	token := f.user("/", "jane")
	f.entry(record.AccessEntry{PrincipalARN: "arn:aws:iam::" + account + ":user/jane", PrincipalID: "AIDAJANE",
		Username: "jane"})
	user := f.authenticate(token).User
	if user.Username != "jane" {
		t.Fatalf("the token is that of %+v", user)
	}
	var ends []func()
	for range maxClusterReviews {
		end, err := f.auth.authentications.begin(t.Context(), record.Cluster{Account: account, ID: clusterID})
		f.put(err)
		ends = append(ends, end)
	}
	f.authorize(user, authorizationv1.SubjectAccessReviewSpec{})
	answer := httptest.NewRecorder()
	gone, leave := context.WithCancel(t.Context())
	leave()
	inTurn(f.auth.authentications, f.auth.authenticate)(answer, httptest.NewRequestWithContext(gone, http.MethodPost, "/",
		nil), record.Cluster{Account: account, ID: clusterID})
	if answer.Code != http.StatusTooManyRequests { // API servers ask again
		t.Errorf("a review without a turn is answered with %d %s", answer.Code, answer.Body)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	r, err := http.NewRequestWithContext(short, http.MethodPost, f.server.URL+"/clusters/"+clusterID+"/authenticate",
		bytes.NewReader([]byte("{}")))
	f.put(err)
	if resp, err := f.client(clusterID).Do(r); err == nil {
		resp.Body.Close()
		t.Errorf("one token more is answered with %s", resp.Status)
	}
	for _, end := range ends {
		end()
	}
	if again := f.authenticate(token); !again.Authenticated {
		t.Errorf("after the others: %+v", again)
	}
}
