package balancing

// RequestHeaders returns the headers that a load balancer adds to requests, and that listeners may call otherwise, by
// the attributes of listeners with their names.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/header-modification.html
func RequestHeaders() map[string]string {
	return map[string]string{
		"routing.http.request.x_amzn_tls_version.header_name":      "X-Amzn-Tls-Version",
		"routing.http.request.x_amzn_tls_cipher_suite.header_name": "X-Amzn-Tls-Cipher-Suite",
	}
}

// ResponseHeaders returns the headers of answers that listeners may set, by the attributes of listeners with their
// values.
func ResponseHeaders() map[string]string {
	return map[string]string{
		"routing.http.response.access_control_allow_credentials.header_value": "Access-Control-Allow-Credentials",
		"routing.http.response.access_control_allow_headers.header_value":     "Access-Control-Allow-Headers",
		"routing.http.response.access_control_allow_methods.header_value":     "Access-Control-Allow-Methods",
		"routing.http.response.access_control_allow_origin.header_value":      "Access-Control-Allow-Origin",
		"routing.http.response.access_control_expose_headers.header_value":    "Access-Control-Expose-Headers",
		"routing.http.response.access_control_max_age.header_value":           "Access-Control-Max-Age",
		"routing.http.response.content_security_policy.header_value":          "Content-Security-Policy",
		"routing.http.response.strict_transport_security.header_value":        "Strict-Transport-Security",
		"routing.http.response.x_content_type_options.header_value":           "X-Content-Type-Options",
		"routing.http.response.x_frame_options.header_value":                  "X-Frame-Options",
	}
}
