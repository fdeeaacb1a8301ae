package metadata

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"time"

	"github.com/coracle-eks/coracle/internal/record"
)

// The machine of a Fargate pod has no instance metadata: the pod has its address, and is to find nothing here. Its
// guest gets the credentials of the pod execution role, of which the pod sees none either: for a token that the host
// gives to the machine's root, and by TLS. The pod has the machine's network, where it may listen to what the machine
// sends, and a Service of its cluster may lead this address to the pod: the guest tells nobody the token who is not
// known by the daemon's authority.

// fargatePath is where the guest of a Fargate machine finds the credentials of its pod execution role.
const fargatePath = "/fargate/credentials"

// FargateToken returns the token for which a Fargate machine gets credentials in its current boot.
func (s *Service) FargateToken(instance record.Instance) (string, error) {
	key, err := s.secret.tokenKey()
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("fargate")) // session tokens are signatures that begin in another way: see signToken
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(instance.Boot)))
	mac.Write([]byte(record.EC2Key(instance.Account, instance.Region, instance.ID)))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)), nil
}

// fargateCredentials is the answer with credentials, in the form of the SDKs' container credentials, or with the reason
// that there are none.
// https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html
type fargateCredentials struct {
	Code            string `json:",omitempty"`
	Message         string `json:",omitempty"`
	AccessKeyID     string `json:"AccessKeyId,omitempty"`
	SecretAccessKey string `json:",omitempty"`
	Token           string `json:",omitempty"`
	Expiration      string `json:",omitempty"`
	RoleARN         string `json:"RoleArn,omitempty"`
}

// serveFargate serves one request from the address of a Fargate machine: of its guest if it has the token, of its pod
// otherwise.
func (s *Service) serveFargate(w http.ResponseWriter, r *http.Request, instance record.Instance) {
	given := r.Header.Values("Authorization")
	if r.TLS == nil || r.Method != http.MethodGet || r.URL.Path != fargatePath || len(given) == 0 {
		writeError(w, http.StatusNotFound)
		return
	}
	token, err := s.FargateToken(instance)
	if err != nil {
		s.log.Error("could not verify the token of a Fargate machine", "instance", instance.ID, "error", err)
		writeError(w, http.StatusInternalServerError)
		return
	}
	// A proxy that the pod runs would add this header.
	if len(given) != 1 || !hmac.Equal([]byte(given[0]), []byte(token)) || len(r.Header.Values("X-Forwarded-For")) > 0 {
		writeError(w, http.StatusForbidden)
		return
	}
	status, answer := s.podExecutionCredentials(r, instance)
	body, err := json.Marshal(answer)
	if err != nil {
		writeError(w, http.StatusInternalServerError)
		return
	}
	writeStatus(w, status, "application/json", body)
}

// podExecutionCredentials returns the credentials of the pod execution role of a Fargate machine. They are kept like
// those of instance profiles.
func (s *Service) podExecutionCredentials(r *http.Request, instance record.Instance) (int, fargateCredentials) {
	role := instance.Fargate.RoleARN
	given := s.credentials.entryFor(instance.ID)
	given.mu.Lock()
	defer given.mu.Unlock()
	now := s.o.Clock.Now()
	if given.role != role || now.Add(renew).After(given.credentials.Expires) {
		fresh, err := s.o.FargateCredentials(r.Context(), instance)
		switch {
		case err == nil:
			given.role, given.at, given.credentials = role, now, fresh
		case given.role == role && now.Before(given.credentials.Expires):
			s.log.Warn("could not renew a Fargate machine's credentials; it keeps those it has", "instance", instance.ID,
				"role", role, "error", err)
		default:
			s.log.Warn("a Fargate machine gets no credentials", "instance", instance.ID, "role", role, "error", err)
			return http.StatusForbidden, fargateCredentials{Code: "AssumeRoleUnauthorizedAccess",
				Message: "Fargate cannot assume the pod execution role " + role +
					": its trust policy has to let eks-fargate-pods.amazonaws.com assume it."}
		}
	}
	c := given.credentials
	return http.StatusOK, fargateCredentials{AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey,
		Token: c.SessionToken, Expiration: c.Expires.UTC().Format(time.RFC3339), RoleARN: role}
}
