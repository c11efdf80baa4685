/* How the operator gets the certificate of its API: over a SOCK_SEQPACKET pair on which only the warden speaks.
 *
 * A packet with two descriptors is a pair of files in memory, sealed and without a name: the chain of certificates and
 * the private key, both in PEM. A packet with none says why there is no pair now: a sentence and a hint, each ended by
 * a zero byte. The last packet is the one that holds. */
#pragma once

#define CERTIFICATE_FDS      2
#define CERTIFICATE_FILE_MAX (64U * 1024) /* bytes of either file */
#define CERTIFICATE_SAY_MAX  1024         /* of a packet without descriptors */
