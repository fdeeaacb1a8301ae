package authenticator

import (
	"errors"
	"net/http"

	"github.com/sirupsen/logrus"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/coracle-eks/coracle/internal/record"
)

// Extra fields of an authenticated user. The prefixed one cannot be claimed by a token of an
// OIDC provider, because k8s.io names are reserved: the authorization webhook goes by it.
const (
	extraARN          = "arn"
	extraCanonicalARN = "canonicalArn"
	extraSessionName  = "sessionName"
	extraAccessKeyID  = "accessKeyId"
	extraPrincipalID  = "principalId"
	extraPrincipal    = "sigs.k8s.io/aws-iam-authenticator/principalId"
)

// authenticate serves the token webhook of one cluster.
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#webhook-token-authentication
func (a *Authenticator) authenticate(w http.ResponseWriter, r *http.Request, c record.Cluster) {
	log := a.clusterLogger(c.ID).WithTime(a.now().UTC()).WithFields(logrus.Fields{
		"client": r.RemoteAddr, "method": r.Method, "path": "/authenticate",
	})
	var review authenticationv1.TokenReview
	if !decodeReview(w, r, &review) {
		log.Error("could not parse request body")
		return
	}
	deny := func(err error) {
		log.WithError(err).Warn("access denied")
		writeReview(w, tokenReview(authenticationv1.TokenReviewStatus{Error: err.Error()}))
	}
	token, err := ParseToken(review.Spec.Token, a.now(), a.own)
	if err != nil {
		deny(err)
		return
	}
	id, err := a.identify(r.Context(), token, c.Name, c.ID)
	var refused *stsError
	switch {
	case errors.As(err, &refused) && !refused.transient():
		deny(err)
		return
	case err != nil:
		log.WithError(err).Warn("access denied")
		askAgain(w, err)
		return
	}
	log.WithFields(logrus.Fields{
		"accesskeyid": id.AccessKeyID, "arn": id.ARN, "accountid": id.AccountID, "userid": id.PrincipalID,
		"session": id.SessionName, "stsendpoint": id.STSEndpoint,
	}).Info("STS response")
	log = log.WithField("arn", id.CanonicalARN)

	user, err := a.resolve(r.Context(), c, id)
	if err != nil {
		deny(err)
		return
	}
	uid := userUID(id)
	log.WithFields(logrus.Fields{
		"username": user.Username, "uid": uid, "groups": user.Groups, "stsendpoint": id.STSEndpoint,
	}).Info("access granted")
	writeReview(w, tokenReview(authenticationv1.TokenReviewStatus{
		Authenticated: true,
		User: authenticationv1.UserInfo{
			Username: user.Username,
			UID:      uid,
			Groups:   user.Groups,
			Extra: map[string]authenticationv1.ExtraValue{
				extraARN:          {id.ARN},
				extraCanonicalARN: {id.CanonicalARN},
				extraSessionName:  {id.SessionName},
				extraAccessKeyID:  {id.AccessKeyID},
				extraPrincipalID:  {id.PrincipalID},
				extraPrincipal:    {id.PrincipalID},
			},
		},
	}))
}

// userUID returns the UID of an identity's user.
func userUID(id Identity) string {
	return "aws-iam-authenticator:" + id.AccountID + ":" + id.PrincipalID
}

func tokenReview(status authenticationv1.TokenReviewStatus) *authenticationv1.TokenReview {
	review := &authenticationv1.TokenReview{Status: status}
	review.SetGroupVersionKind(authenticationv1.SchemeGroupVersion.WithKind("TokenReview"))
	return review
}
