package efsmount

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/coracle-eks/coracle/internal/guest/imds"
)

// source finds credentials, in the order in which amazon-efs-utils looks for them, unless they are fixed.
type source struct {
	env      func(string) string
	home     string
	imds     *imds.Client
	client   *http.Client
	region   string
	endpoint string // of STS; empty: that of the region
	fixed    func(context.Context) (aws.Credentials, error)
}

// ecsAddress is that of the credentials of containers, to which relative URIs belong.
const ecsAddress = "http://169.254.170.2"

// credentials returns those that the options name, or the first that there are.
func (s source) credentials(ctx context.Context, options map[string]string) (aws.Credentials, error) {
	if s.fixed != nil {
		return s.fixed(ctx)
	}
	if uri := options["awscredsuri"]; uri != "" {
		return s.ofContainer(ctx, ecsAddress+uri, "")
	}
	profile, named := options["awsprofile"]
	if !named {
		profile = "default"
	}
	if c, found, err := s.ofProfile(profile); err != nil || found {
		return c, err
	}
	if named {
		return aws.Credentials{}, fmt.Errorf("AWS security credentials not found in AWS credentials or config file under "+
			"named profile [%s]", profile)
	}
	role, token := options["rolearn"], options["jwtpath"]
	if role == "" {
		role, token = s.env("AWS_ROLE_ARN"), s.env("AWS_WEB_IDENTITY_TOKEN_FILE")
	}
	switch {
	case s.env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") != "":
		return s.ofContainer(ctx, ecsAddress+s.env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"), "")
	case role != "" && token != "":
		return s.ofWebIdentity(ctx, role, token)
	case s.env("AWS_CONTAINER_CREDENTIALS_FULL_URI") != "":
		return s.ofContainer(ctx, s.env("AWS_CONTAINER_CREDENTIALS_FULL_URI"),
			s.env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"))
	}
	c, err := s.imds.RoleCredentials(ctx)
	if err != nil {
		return aws.Credentials{}, fmt.Errorf("AWS Access Key ID and Secret Access Key are not found in AWS credentials file "+
			"(%s), config file (%s), from the container's credentials, or from the instance security credentials service: %w",
			s.file("credentials"), s.file("config"), err)
	}
	return aws.Credentials{AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey, SessionToken: c.Token}, nil
}

func (s source) file(name string) string {
	for env, of := range map[string]string{"AWS_SHARED_CREDENTIALS_FILE": "credentials", "AWS_CONFIG_FILE": "config"} {
		if of == name && s.env(env) != "" {
			return s.env(env)
		}
	}
	return filepath.Join(s.home, ".aws", name)
}

// ofProfile reads a profile of the AWS CLI's files.
func (s source) ofProfile(profile string) (c aws.Credentials, found bool, err error) {
	for file, section := range map[string]string{"credentials": profile, "config": "profile " + profile} {
		if file == "config" && profile == "default" {
			section = profile
		}
		f, err := os.Open(s.file(file))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return c, false, err
		}
		values := readSection(f, section)
		f.Close()
		if values["aws_access_key_id"] == "" || values["aws_secret_access_key"] == "" || c.HasKeys() && file == "config" {
			continue
		}
		c = aws.Credentials{AccessKeyID: values["aws_access_key_id"], SecretAccessKey: values["aws_secret_access_key"],
			SessionToken: values["aws_session_token"]}
	}
	return c, c.HasKeys(), nil
}

// readSection returns the values of a section of an INI file.
func readSection(r io.Reader, section string) map[string]string {
	values, in := map[string]string{}, false
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			in = strings.TrimSpace(line[1:len(line)-1]) == section
			continue
		}
		if key, value, ok := strings.Cut(line, "="); ok && in && !strings.HasPrefix(line, "#") {
			values[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
		}
	}
	return values
}

// maxAnswer bounds the answers of those who have credentials.
const maxAnswer = 1 << 20

func (s source) get(request *http.Request, answer any) error {
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %.200s", request.URL.Host, response.Status, strings.TrimSpace(string(body)))
	}
	return json.Unmarshal(body, answer)
}

// ofContainer asks the service that has the credentials of a container: of ECS, or of EKS Pod Identity.
func (s source) ofContainer(ctx context.Context, uri, tokenFile string) (aws.Credentials, error) {
	fail := func(err error) (aws.Credentials, error) {
		return aws.Credentials{}, fmt.Errorf("get the credentials of the container: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, nil)
	if err != nil {
		return fail(err)
	}
	if tokenFile != "" {
		token, err := os.ReadFile(tokenFile)
		if err != nil {
			return fail(err)
		}
		request.Header.Set("Authorization", strings.TrimSpace(string(token)))
	}
	var c struct{ AccessKeyID, SecretAccessKey, Token string }
	if err := s.get(request, &c); err != nil {
		return fail(err)
	}
	return aws.Credentials{AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey, SessionToken: c.Token}, nil
}

// ofWebIdentity assumes the role of a service account.
func (s source) ofWebIdentity(ctx context.Context, role, tokenFile string) (aws.Credentials, error) {
	fail := func(err error) (aws.Credentials, error) {
		return aws.Credentials{}, fmt.Errorf("assume the role %s: %w", role, err)
	}
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return fail(err)
	}
	endpoint := s.endpoint
	if endpoint == "" {
		endpoint = "https://sts." + s.region + ".amazonaws.com/"
	}
	query := url.Values{"Version": {"2011-06-15"}, "Action": {"AssumeRoleWithWebIdentity"}, "RoleArn": {role},
		"RoleSessionName":  {fmt.Sprintf("efs-mount-%d", time.Now().Unix())},
		"WebIdentityToken": {strings.TrimSpace(string(token))}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(query.Encode()))
	if err != nil {
		return fail(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	request.Header.Set("Accept", "application/json")
	var answer struct {
		AssumeRoleWithWebIdentityResponse struct {
			AssumeRoleWithWebIdentityResult struct {
				Credentials struct{ AccessKeyID, SecretAccessKey, SessionToken string }
			}
		}
	}
	if err := s.get(request, &answer); err != nil {
		return fail(err)
	}
	c := answer.AssumeRoleWithWebIdentityResponse.AssumeRoleWithWebIdentityResult.Credentials
	return aws.Credentials{AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey,
		SessionToken: c.SessionToken}, nil
}
