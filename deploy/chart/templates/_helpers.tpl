{{/* Only functions of Go's own text/template are used, so that the chart can be rendered and checked without Helm (make deploy-check). */}}
{{- define "tersely.labels" -}}
app.kubernetes.io/name: tersely
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ printf "%q" .Chart.AppVersion }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}
{{- define "tersely.pod" -}}
serviceAccountName: {{ .Values.serviceAccount.name }}
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 45
      {{- if .Values.image.pullSecrets }}
      imagePullSecrets:
        {{- range .Values.image.pullSecrets }}
        - name: {{ . }}
        {{- end }}
      {{- end }}
      {{- if .Values.nodeSelector }}
      nodeSelector:
        {{- range $key, $value := .Values.nodeSelector }}
        {{ $key }}: {{ printf "%q" $value }}
        {{- end }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 10001
        runAsGroup: 10001
        fsGroup: 10001
        seccompProfile: {type: RuntimeDefault}
      volumes:
        - name: config
          configMap: {name: {{ .Release.Name }}-tersely}
        - name: data
          emptyDir: {}
        - name: tmp
          emptyDir: {}
{{- end -}}
{{- define "tersely.container" -}}
image: {{ printf "%s:%s" .Values.image.repository .Values.image.tag | printf "%q" }}
          imagePullPolicy: {{ .Values.image.pullPolicy }}
          envFrom:
            - secretRef: {name: {{ .Values.secretName }}}
          env:
            - {name: TERSELY_CONFIG, value: /etc/tersely/tersely.yaml}
            - {name: TERSELY_HOST, value: 0.0.0.0}
            - {name: TERSELY_PORT, value: "8010"}
            - {name: TERSELY_DATA_DIR, value: /data}
            - {name: TERSELY_LOG_FORMAT, value: json}
            - {name: TERSELY_ALLOWED_HOSTS, value: {{ printf "%q" .Values.allowedHosts }}}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
          volumeMounts:
            - {name: config, mountPath: /etc/tersely, readOnly: true}
            - {name: data, mountPath: /data}
            - {name: tmp, mountPath: /tmp}
{{- end -}}
{{- define "tersely.resources" -}}
resources:
            {{- range $kind, $amounts := . }}
            {{ $kind }}:
              {{- range $name, $amount := $amounts }}
              {{ $name }}: {{ printf "%v" $amount | printf "%q" }}
              {{- end }}
            {{- end }}
{{- end -}}
