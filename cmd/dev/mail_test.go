package main

import "testing"

func TestSendToSink_KeepsSettingsOfEnvironment(t *testing.T) {
	t.Parallel()
	values := map[string]string{}
	for _, port := range ports {
		values[port.name] = "127.0.0.1:0"
	}
	listeners, err := listen(values)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(listeners.close)
	smtpURL, publicURL := "smtp://"+address(listeners.mailSMTP())+"?tls=none", "http://"+address(listeners.api())
	for name, test := range map[string]struct {
		environ []string
		want    map[string]string
	}{
		"empty environment": {
			want: map[string]string{
				smtpURLName: smtpURL, mailFromName: "Tributary <mail@tributary.localhost>", publicURLName: publicURL,
				operatorEmailName: demoOperator, landingOriginsName: "http://" + address(listeners.shop()),
			},
		},
		"own mail server": {
			environ: []string{smtpURLName + "=smtp://mail.example:25", mailFromName + "=me@example.com", publicURLName + "=https://api.example"},
			want: map[string]string{
				smtpURLName: "smtp://mail.example:25", mailFromName: "me@example.com", publicURLName: "https://api.example", operatorEmailName: "",
			},
		},
		"mail server in a file": {
			environ: []string{smtpURLName + "_FILE=/smtp"},
			want:    map[string]string{smtpURLName: "", publicURLName: publicURL, operatorEmailName: ""},
		},
		"own landing page": {
			environ: []string{landingOriginsName + "=https://www.example.com", operatorEmailName + "=me@example.com"},
			want:    map[string]string{smtpURLName: smtpURL, landingOriginsName: "https://www.example.com", operatorEmailName: "me@example.com"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values := environment(test.environ, nil, nil)
			setLanding(values, listeners)
			sendToSink(values, listeners)
			for name, value := range test.want {
				if values[name] != value {
					t.Errorf("%s = %q, want %q", name, values[name], value)
				}
			}
		})
	}
}
