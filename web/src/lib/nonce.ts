// The server lets style elements of this page work if they carry the number that it made for it.
export function nonce(): string {
  return document.querySelector<HTMLMetaElement>('meta[name=stockade-nonce]')?.content ?? ''
}
